package org.apache.spark.sql.keystate.store

import org.apache.spark.sql.execution.streaming.state.StateStoreMetrics

import keystate.backend.TreeStateBackendFactory
import keystate.config.Settings
import keystate.errors.BadSettingException
import org.apache.spark.sql.keystate.KeyGroupStateStoreProvider

/** The provider over the RocksDB backend. */
class RocksDBProviderSuite extends KeyGroupStateStoreProviderSuite {
  override protected def backend: String = "rocksdb"
}

class RocksDBColumnFamilySuite extends ColumnFamilySuite {
  override protected def backend: String = "rocksdb"
}

/** The provider over a store that moves. */
class AutoProviderSuite extends KeyGroupStateStoreProviderSuite {
  override protected def backend: String = "auto"

  private def commit(provider: KeyGroupStateStoreProvider, version: Long): StateStoreMetrics = {
    val store = provider.getStore(version)
    store.put(key(s"$version", 1), value(7))
    store.commit()
    store.metrics
  }

  private def custom(metrics: StateStoreMetrics, name: String): Long =
    metrics.customMetrics.collectFirst { case (metric, value) if metric.name == name => value }.get

  test("a commit frees the heap, and the next tells where the store is") {
    withProvider(newProvider()) { provider =>
      assert(custom(commit(provider, 0), "keystateStoresOnDisk") == 0)
      assert(provider.versions.isOnDisk)
      val metrics = commit(provider, 1)
      assert(custom(metrics, "keystateStoresOnDisk") == 1 && custom(metrics, "keystateMoves") == 1)
      assert(metrics.numKeys == 2)
      val reader = provider.getReadStore(2)
      assert(pairs(reader.iterator()).toMap == Map(("0", 1L) -> 7, ("1", 1L) -> 7))
      reader.release()
    }
  }

  test("a store that no task comes to makes room in maintenance, not while a task has it") {
    withProvider(newProvider(hadoop = Map(Settings.HeapShare.key -> "0.5"))) { idle =>
      commit(idle, 0)
      assert(!idle.versions.isOnDisk)
      val open = idle.getStore(1)
      withProvider(newProvider())(commit(_, 0))
      idle.doMaintenance()
      assert(!idle.versions.isOnDisk)
      open.abort()
      idle.doMaintenance()
      assert(idle.versions.isOnDisk)
      assert(commit(idle, 1).numKeys == 2)
    }
  }
}

class AutoColumnFamilySuite extends ColumnFamilySuite {
  override protected def backend: String = "auto"
}

/** The provider over a backend that is not Keystate's. */
class CustomBackendProviderSuite extends KeyGroupStateStoreProviderSuite {
  override protected def backend: String = classOf[TreeStateBackendFactory].getName

  test("options of a backend reach it, and its complaints the user") {
    val option = "spark.keystate.backend.option."
    newProvider(hadoop = Map(s"${option}label" -> "x")).close()
    val e =
      intercept[IllegalArgumentException](newProvider(hadoop = Map(s"${option}colour" -> "x")))
    assert(e.getMessage.contains("there is no option 'colour'"))
  }

  test("a class that is no backend") {
    val setting = Settings.Backend.key
    val other = classOf[RunsWhenLoaded].getName
    Seq(other -> "not a StateBackendFactory").foreach { case (name, message) =>
      val e = intercept[BadSettingException](newProvider(hadoop = Map(setting -> name)))
      assert(e.getMessage.contains(message))
    }
    assert(System.getProperty(RunsWhenLoaded.Property) == null, "no code of it has run")
    Seq("java.lang.String" -> "not a StateBackendFactory", "no.Such" -> "no such class").foreach {
      case (name, message) =>
        val e = intercept[BadSettingException](newProvider(hadoop = Map(setting -> name)))
        assert(Seq(setting, name, message).forall(e.getMessage.contains(_)))
    }
  }
}

/** What a class that is no backend could do when an object of it is made. */
class RunsWhenLoaded {
  System.setProperty(RunsWhenLoaded.Property, "true")
}

object RunsWhenLoaded {
  final val Property = "keystate.test.runs-when-loaded"
}
