package org.apache.spark.sql.keystate.store

import keystate.errors.BadSettingException
import keystate.settings.Settings
import keystate.backend.TreeStateBackendFactory

/** The provider over the RocksDB backend. */
class RocksDBProviderSuite extends KeyGroupStateStoreProviderSuite {
  override protected def backend: String = "rocksdb"
}

class RocksDBColumnFamilySuite extends ColumnFamilySuite {
  override protected def backend: String = "rocksdb"
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
