package org.apache.spark.sql.keystate.suites

import scala.collection.mutable

import org.apache.spark.SparkConf
import org.apache.spark.sql.execution.streaming.state.{
  HDFSBackedStateStoreProvider, RocksDBStateStoreProvider
}
import org.apache.spark.sql.internal.{SQLConf, StaticSQLConf}
import org.apache.spark.sql.test.SharedSparkSession

import keystate.backend.heap.HeapStateBackend
import keystate.backend.rocksdb.EmbeddedRocksDBStateBackend
import keystate.config.Settings
import org.apache.spark.sql.keystate.KeystateExtension
import org.apache.spark.sql.keystate.store.LoadedStores

/** A suite of Spark's on our provider, also where a test names one of Spark's two. Tests that are
  * left out show as ignored.
  *
  * The backend is what the environment variable KEYSTATE_BACKEND says, or else the heap. A suite
  * whose stores had another one, or another provider, fails.
  */
trait OnKeystate extends SharedSparkSession {
  import OnKeystate._

  protected def backend: String = sys.env.getOrElse("KEYSTATE_BACKEND", "hashmap")

  private val backendsSeen = mutable.Set.empty[Class[_]]

  override protected def sparkConf: SparkConf = super.sparkConf
    .set(Provider, Settings.ProviderClass)
    .set(StaticSQLConf.SPARK_SESSION_EXTENSIONS.key, classOf[KeystateExtension].getName)
    .set(Settings.Backend.key, backend)

  override def beforeAll(): Unit = {
    super.beforeAll()
    spark.conf.set(Provider, Settings.ProviderClass)
  }

  override protected def withSQLConf[T](pairs: (String, String)*)(body: => T): T =
    super.withSQLConf(pairs.map {
      case (Provider, SparksOwn()) => Provider -> Settings.ProviderClass
      case other => other
    }: _*)(body)

  // Before what Spark's suites do after a test, which is to unload the stores.
  override def afterEach(): Unit = {
    backendsSeen ++= LoadedStores.backends
    super.afterEach()
  }

  override def afterAll(): Unit = {
    super.afterAll()
    backendsSeen
      .filter(_ != backendClass)
      .foreach(other => fail(s"$backend was set, $other was used"))
  }

  private def backendClass: Class[_] = backend match {
    case "hashmap" => classOf[HeapStateBackend]
    case "rocksdb" => classOf[EmbeddedRocksDBStateBackend]
  }

  override def tags: Map[String, Set[String]] =
    testNames.filter(SparkTestsLeftOut.contains).foldLeft(super.tags) { (tags, name) =>
      tags.updated(name, tags.getOrElse(name, Set.empty[String]) + "org.scalatest.Ignore")
    }
}

private object OnKeystate {
  val Provider: String = SQLConf.STATE_STORE_PROVIDER_CLASS.key

  object SparksOwn {
    private val classes =
      Set(classOf[RocksDBStateStoreProvider], classOf[HDFSBackedStateStoreProvider])
        .map(_.getName)
    def unapply(provider: String): Boolean = classes.contains(provider)
  }
}

trait OnKeystateWithRocksDB extends OnKeystate {
  override protected def backend: String = "rocksdb"
}
