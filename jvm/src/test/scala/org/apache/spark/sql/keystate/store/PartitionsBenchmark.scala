package org.apache.spark.sql.keystate.store

import java.io.File
import java.lang.management.{ManagementFactory, MemoryType}
import java.nio.file.Files
import java.util.UUID

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import keystate.backend.Layout
import keystate.backend.heap.HeapStateBackendFactory
import keystate.checkpoint.{Rescaling, StoreReader, StoreSettings, VersionedStore}
import keystate.faults.{ObjectFileSystem, Requests}
import keystate.files.{CheckpointStorage, Concurrently, LocalFolder, StoreLocation}
import keystate.keygroup.KeyGroups
import org.apache.spark.sql.keystate.files.SparkCheckpointStorage

/** Rescales the stores of an operator with many partitions, without Spark; for bench/partitions.py.
  *
  * Each store has one run file and inline runs, of two families. They are in a store where each
  * request takes a while. The rescale is done twice: once for its time, and once, without waiting,
  * while the heap is collected again and again, for what is alive in it.
  */
object PartitionsBenchmark {
  private val MaxParallelism = KeyGroups.MaxMaxParallelism
  private val Operator = 0L
  private val LargeRun = 70000
  private val Loads = 21

  /** Arguments: a folder, the delay in ms, the checkpoint format, numbers of partitions before and
    * after, how many inline runs, of how many bytes each. Prints `answer` and figures as JSON.
    */
  def main(arguments: Array[String]): Unit = {
    val Array(delay, format, before, after, runs, bytes) = arguments.tail.map(_.toInt): @unchecked
    val folder = new File(arguments.head)
    val scratch = new LocalFolder(() => Files.createTempDirectory("keystate-bench").toFile)
    val quick = storage(folder, 0)
    val slow = storage(folder, delay)
    try {
      val version = runs + 1L
      val ids = Concurrently.map(0 until before)(write(quick, _, before, runs, bytes, format == 2))
      def rescale(storage: CheckpointStorage): Seq[Option[String]] = Rescaling.run(
        storage,
        Operator,
        StoreLocation.DefaultStore,
        version,
        ids,
        after,
        () => UUID.randomUUID.toString,
        scratch
      )
      val live = liveMegabytes { val _ = rescale(quick) }
      Requests.clear()
      var renamed = Seq.empty[Option[String]]
      val seconds = millis { renamed = rescale(slow) } / 1000.0
      val requests = Requests.counts()
      val written = renamed.indices.map { partition =>
        val reader = new StoreReader(location(partition), quick, scratch)
        val file = reader.versionFile(version, renamed(partition), after)
        new File(folder, s"state/$Operator/$file").length
      }
      Requests.clear()
      val random = new Random(1)
      val loads = Seq.fill(Loads)(random.nextInt(after)).map { partition =>
        val settings = StoreSettings(Some(MaxParallelism), parallelism = Some(after))
        val store = open(slow, partition, settings)
        try millis(store.load(version, renamed(partition)))
        finally store.close()
      }
      val figures = Seq(
        "seconds" -> seconds,
        "version files, MB" -> written.sum / 1e6,
        "largest version file, kB" -> written.max / 1e3,
        "heap, MB" -> live,
        "load, ms" -> loads.sorted.apply(Loads / 2).toDouble,
        "requests of a load" -> Requests.all.size.toDouble / Loads
      ) ++ requests.map { case (verb, count) => verb -> count.toDouble }
      println(figures.map { case (name, n) => s""""$name": $n""" }.mkString("answer {", ", ", "}"))
    } finally scratch.close()
  }

  private def storage(folder: File, delay: Int): CheckpointStorage = {
    val conf = new Configuration(false)
    ObjectFileSystem.settings(delayMs = delay.toLong).foreach { case (k, v) => conf.set(k, v) }
    new SparkCheckpointStorage(
      new Path(s"${ObjectFileSystem.Scheme}:$folder/state/$Operator"),
      conf
    )
  }

  private def location(partition: Int) =
    StoreLocation(Operator, partition, StoreLocation.DefaultStore)

  private def open(
      storage: CheckpointStorage,
      partition: Int,
      settings: StoreSettings
  ): VersionedStore = new VersionedStore(
    location(partition),
    storage,
    settings,
    new HeapStateBackendFactory,
    new LocalFolder(() => Files.createTempDirectory("keystate-bench").toFile)
  )

  /** Writes a partition's store; returns the id of its last version. */
  private def write(
      storage: CheckpointStorage,
      partition: Int,
      partitions: Int,
      runs: Int,
      bytes: Int,
      withIds: Boolean
  ): Option[String] = {
    val store = open(storage, partition, StoreSettings(Some(MaxParallelism), Some(partitions)))
    val groups = KeyGroups.rangeOf(partition, partitions, MaxParallelism)
    val random = new Random(partition.toLong)
    try {
      store.load(0, None)
      val families = Seq("count", "total").map { name =>
        store.registerFamily(name, Layout.Point, Map("kind" -> "value"))
      }
      (LargeRun +: Seq.fill(runs)(bytes)).foldLeft(Option.empty[String]) { (_, size) =>
        // A value in every group, all together so large.
        for (group <- groups.first to groups.last; family <- families)
          store.backend.put(
            family.id,
            group,
            random.nextBytes(8),
            random.nextBytes(size / groups.size / families.size)
          )
        val id = Option.when(withIds)(UUID.randomUUID.toString)
        store.commit(id)
        id
      }
    } finally store.close()
  }

  private def millis(body: => Unit): Long = {
    val start = System.nanoTime
    body
    (System.nanoTime - start) / 1000000
  }

  /** The most that was alive in the heap meanwhile, above what was before. */
  private def liveMegabytes(body: => Unit): Double = {
    val pools = ManagementFactory.getMemoryPoolMXBeans.asScala.filter(_.getType == MemoryType.HEAP)
    // As it was right after the collection: without what was allocated since.
    def alive(): Long = {
      System.gc()
      pools.map(_.getCollectionUsage.getUsed).sum
    }
    val before = alive()
    @volatile var done = false
    @volatile var most = before
    val watching = new Thread(() => while (!done) most = Math.max(most, alive()))
    watching.start()
    try body
    finally {
      done = true
      watching.join()
    }
    (most - before) / 1e6
  }
}
