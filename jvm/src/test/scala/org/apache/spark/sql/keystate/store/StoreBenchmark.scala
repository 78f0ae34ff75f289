package org.apache.spark.sql.keystate.store

import java.io.File
import java.nio.file.Files
import java.util.UUID

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{LongType, StructType}

/** Drives one state store provider through Spark's StateStore API and measures it; for
  * bench/store.py, which calls it through py4j once a provider.
  *
  * The store holds `keys` entries, key (long, long), value (long, long): groups of 50 with one
  * prefix, or single keys.
  */
object StoreBenchmark {
  private final val PrefixGroup = 50
  // Twice as many versions as there are between two snapshots of Spark's providers. Until the first
  // one, RocksDB has all that was put in its memory tables.
  private final val Rounds = 20
  private val keySchema = new StructType().add("key", LongType).add("n", LongType)
  private val valueSchema = new StructType().add("count", LongType).add("total", LongType)

  /** Figures by name: times in ns or ms as the name says. */
  def run(
      provider: String,
      settings: java.util.Map[String, String],
      keys: Int,
      operations: Int
  ): java.util.Map[String, Double] = {
    // Providers report to it; the session makes it when it is first asked for.
    SparkSession.getDefaultSession.foreach(_.streams.stateStoreCoordinator)
    val folder = Files.createTempDirectory("keystate-bench").toFile
    try {
      val figures = new Run(provider, settings.asScala.toMap, folder, keys, operations)
      figures.points()
      figures.prefixes()
      figures.results.map { case (name, value) => name -> value }.asJava
    } finally delete(folder)
  }

  private final class Run(
      providerClass: String,
      settings: Map[String, String],
      folder: File,
      keys: Int,
      operations: Int
  ) {
    val results: mutable.Map[String, Double] = mutable.LinkedHashMap.empty
    private val key = new UnsafeRow(2)
    key.pointTo(new Array[Byte](24), 24)
    private val value = new UnsafeRow(2)
    value.pointTo(new Array[Byte](24), 24)

    /** Single keys: writes all, reads and changes a part in random order, loads. */
    def points(): Unit = {
      val root = new File(folder, "points")
      val spec = NoPrefixKeyStateEncoderSpec(keySchema)
      val heapBefore = heapUsed()
      var provider = open(root, spec)
      var version = 0L
      val first = provider.getStore(0)
      results("put new, ns") = perOperation(keys)(i => put(first, i.toLong, 0, i.toLong))
      results("commit new, ns a key") = perOperation(1)(_ => first.commit()) / keys
      results("put and commit new, ns a key") =
        results("put new, ns") + results("commit new, ns a key")
      results("bytes written, a new key") = bytesIn(root).toDouble / keys
      version += 1
      provider.doMaintenance()
      results("heap, bytes a key") = (heapUsed() - heapBefore).toDouble / keys

      val changes = mutable.Buffer.empty[Seq[Double]]
      (1 to Rounds).foreach { round =>
        val store = provider.getStore(version)
        val random = new java.util.SplittableRandom(round.toLong)
        var missing = 0
        val get = perOperation(operations) { _ =>
          if (get1(store, random.nextInt(keys).toLong, 0) == null) missing += 1
        }
        require(missing == 0, s"$missing keys are lost")
        val changed = new java.util.SplittableRandom(round.toLong + 100)
        // Some providers write while they put.
        val before = bytesIn(root)
        val put1 =
          perOperation(operations)(i => put(store, changed.nextInt(keys).toLong, 0, i.toLong))
        val commit = perOperation(1)(_ => store.commit()) / operations
        val bytes = (bytesIn(root) - before).toDouble / operations
        changes += Seq(get, put1, commit, put1 + commit, bytes)
        version += 1
        provider.doMaintenance()
      }
      val names = Seq(
        "get, ns",
        "put, ns",
        "commit, ns a key",
        "put and commit, ns a key",
        "bytes written, a changed key"
      )
      names.zip(changes.drop(1).toSeq.transpose).foreach { case (name, measured) =>
        results(name) = median(measured)
      }
      provider.close()

      // A provider may leave reading to the first gets.
      Seq("load" -> 1, "load and 10 gets" -> 10, "load and 10,000 gets" -> 10000).foreach {
        case (name, gets) =>
          val random = new java.util.SplittableRandom(gets.toLong)
          results(s"$name, ms") = median((1 to 3).map { _ =>
            provider = open(root, spec)
            var store: StateStore = null
            val load = perOperation(1)(_ => store = provider.getStore(version))
            val read = perOperation(gets)(_ => get1(store, random.nextInt(keys).toLong, 0))
            store.abort()
            provider.close()
            (load + (if (gets == 1) 0 else read * gets)) / 1e6
          })
      }
    }

    /** Keys with one prefix. */
    def prefixes(): Unit = {
      val root = new File(folder, "prefixes")
      val provider = open(root, PrefixKeyScanStateEncoderSpec(keySchema, 1))
      val store = provider.getStore(0)
      val groups = keys / PrefixGroup
      (0 until groups * PrefixGroup).foreach { i =>
        put(store, (i % groups).toLong, (i / groups).toLong, i.toLong)
      }
      store.commit()
      val prefix = new UnsafeRow(1)
      prefix.pointTo(new Array[Byte](16), 16)
      val scans = operations / PrefixGroup
      results("prefix scan, ns an entry") = median(
        (1 to 4)
          .map { round =>
            val open = provider.getStore(1)
            val random = new java.util.SplittableRandom(round.toLong)
            var found = 0L
            val time = perOperation(scans) { _ =>
              prefix.setLong(0, random.nextInt(groups).toLong)
              val entries = open.prefixScan(prefix)
              while (entries.hasNext)
                if (entries.next().value != null) found += 1
              entries.close()
            }
            require(found == scans.toLong * PrefixGroup, s"$found entries")
            open.abort()
            time / PrefixGroup
          }
          .drop(1)
      )
      provider.close()
    }

    private def put(store: StateStore, k: Long, n: Long, v: Long): Unit = {
      key.setLong(0, k)
      key.setLong(1, n)
      value.setLong(0, v)
      value.setLong(1, v)
      store.put(key, value)
    }

    private def get1(store: StateStore, k: Long, n: Long): UnsafeRow = {
      key.setLong(0, k)
      key.setLong(1, n)
      store.get(key)
    }

    private def open(root: File, spec: KeyStateEncoderSpec): StateStoreProvider = {
      val conf = new SQLConf
      settings.foreach { case (name, value) => conf.setConfString(name, value) }
      val hadoopConf = new Configuration
      hadoopConf.set(StreamExecution.RUN_ID_KEY, UUID.randomUUID.toString)
      settings.foreach { case (name, value) => hadoopConf.set(name, value) }
      val provider = StateStoreProvider.create(providerClass)
      provider.init(
        StateStoreId(root.toURI.toString, 0, 0),
        keySchema,
        valueSchema,
        spec,
        useColumnFamilies = false,
        new StateStoreConf(conf),
        hadoopConf
      )
      provider
    }
  }

  private def perOperation(count: Int)(operation: Int => Any): Double = {
    val start = System.nanoTime
    var i = 0
    while (i < count) {
      operation(i)
      i += 1
    }
    (System.nanoTime - start).toDouble / count
  }

  private def median(values: Seq[Double]): Double = values.sorted.apply(values.size / 2)

  private def heapUsed(): Long = {
    (1 to 3).foreach { _ =>
      System.gc()
      Thread.sleep(100)
    }
    val runtime = Runtime.getRuntime
    runtime.totalMemory - runtime.freeMemory
  }

  private def bytesIn(file: File): Long =
    if (file.isDirectory) Option(file.listFiles).fold(0L)(_.map(bytesIn).sum)
    else if (file.getName.endsWith(".crc")) 0L
    else file.length

  private def delete(file: File): Unit = {
    Option(file.listFiles).foreach(_.foreach(delete))
    file.delete()
    ()
  }
}
