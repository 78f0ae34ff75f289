package keystate.simulation

import java.io.File
import java.nio.ByteBuffer
import java.nio.file.{FileAlreadyExistsException, Files}
import java.util.UUID

import scala.collection.mutable
import scala.util.{Random, Using}

import keystate.backend.auto.{AutoStateBackendFactory, HeapShare}
import keystate.backend.heap.HeapStateBackendFactory
import keystate.backend.rocksdb.RocksDBStateBackendFactory
import keystate.backend.{GroupEntries, StateBackendFactory}
import keystate.checkpoint.{StoreSettings, VersionedStore}
import keystate.errors.KeystateException
import keystate.files.{CheckpointStorage, LocalFolder, StoreLocation}
import keystate.localrecovery.{LocalRecovery, RetainedKeyGroups}
import keystate.version.Manifest

/** Where stores have their state; any other one may go on from it. */
sealed trait BackendKind
object BackendKind {
  case object Heap extends BackendKind
  case object RocksDB extends BackendKind

  /** In one of the two; the heap that there is changes all the time. */
  case object Auto extends BackendKind
}

/** What a query is started with.
  *
  * @param speculation
  *   how likely a task has two attempts at once
  * @param taskFails
  *   how likely a function throws
  */
final case class QuerySettings(
    withIds: Boolean,
    store: StoreSettings,
    executors: Int,
    speculation: Double,
    taskFails: Double,
    maintenanceMillis: Int,
    backend: BackendKind = BackendKind.Heap
)

/** A cluster with its storage, made by a seed.
  *
  * @param recovers
  *   whether stores leave what they have in memory to those that are opened next: all executors are
  *   one JVM for that
  * @param heaps
  *   draws how much heap there is
  * @param usesSource
  *   whether a stateful source gives the batches' rows
  */
final class World(
    val random: Choices,
    val kind: StorageKind,
    mutation: Option[Mutation],
    recovers: Boolean,
    heaps: Random,
    val usesSource: Boolean
) {
  val story = new Story
  val maxParallelism: Int = 4 + random.nextInt(5)
  val longestTick: Int = Seq(2, 50, 2000)(random.nextInt(3))
  val scheduler: Scheduler = new Scheduler(
    random,
    stickiness = Seq(0.0, 0.5, 0.8, 0.95)(random.nextInt(4)),
    longestTick,
    mostSteps = 100000
  )

  /** From now on all goes well. */
  var isPeaceful = false

  /** After how many ms somebody is taken for lost. */
  def patience(): Long =
    if (isPeaceful) Long.MaxValue / 8 else longestTick * (5L + random.nextInt(300))

  val storage = new SimulatedStorage(kind, scheduler, random, story, mutation)
  val model = new Model(maxParallelism)

  /** All that were begun. */
  val processes: mutable.ArrayBuffer[Process] = mutable.ArrayBuffer.empty[Process]
  private var executorCount = 0

  def has(other: Mutation): Boolean = mutation.contains(other)

  /** A driver knows that a batch is committed. */
  var acknowledged: (Driver, Long) => Unit = (_, _) => ()

  /** Whether a version is one of those that have to be readable. */
  var mustBeReadable: Long => Boolean = _ => false

  def newExecutor(driver: Process, settings: QuerySettings, partitions: Int): Executor = {
    executorCount += 1
    new Executor(this, driver, settings, partitions, executorCount)
  }

  def newStore(
      storage: CheckpointStorage,
      settings: QuerySettings,
      partitions: Int,
      partition: Int,
      heap: HeapShare = new HeapShare
  ): VersionedStore = {
    val store = new VersionedStore(
      StoreLocation(0, partition, StoreLocation.DefaultStore),
      storage,
      settings.store.copy(
        minVersionsToRetain =
          settings.store.minVersionsToRetain - (if (has(Mutation.KeepsFewer)) 3 else 0),
        maxParallelism = Some(maxParallelism),
        parallelism = Some(partitions)
      ),
      settings.backend match {
        case BackendKind.Heap => World.onHeap
        case BackendKind.RocksDB => World.onDisk
        case BackendKind.Auto => auto(heap)
      },
      new LocalFolder(() => World.scratch()),
      if (recovers) localRecovery else LocalRecovery.None
    )
    stores += store
    store
  }

  /** Any state fits, or none: at any time another way. */
  private def auto(heap: HeapShare): StateBackendFactory = {
    def maxHeap = if (heaps.nextInt(8) == 0) 2 else Long.MaxValue
    val factory = new AutoStateBackendFactory(heap, () => maxHeap)
    factory.configure(Map("rocksdb.memoryMB" -> World.MemoryMB, "auto.heapShare" -> "0.5"))
    factory
  }

  private object localRecovery extends LocalRecovery {
    private val left = new RetainedKeyGroups
    private var last: Option[Manifest] = None

    override def retain(manifest: Manifest, entries: Map[(Int, Int), GroupEntries]): Unit = {
      left.retain("checkpoint", manifest, entries)
      last = Some(manifest)
    }

    override def supersede(): Unit = ()

    override def recover(manifest: Manifest): Map[(Int, Int), GroupEntries] = {
      val wanted =
        if (has(Mutation.RecoversAnyVersion)) manifest.copy(runs = last.fold(manifest.runs)(_.runs))
        else manifest
      val found = left.recover("checkpoint", wanted)
      if (found.nonEmpty)
        story.reach(
          if (manifest.partitioning.rescaledAt.contains(manifest.version))
            "state in memory is recovered after a rescale"
          else "state in memory is recovered"
        )
      found
    }
  }

  private val stores = mutable.ArrayBuffer.empty[VersionedStore]

  /** What a version has of the model's families, by partition. */
  def contents(
      storage: CheckpointStorage,
      version: Long,
      ids: Seq[Option[String]]
  ): Seq[Model.Content] = ids.zipWithIndex.map { case (id, partition) =>
    Using.resource(newStore(storage, World.OfReader, ids.size, partition)) { store =>
      store.load(version, id)
      content(store)
    }
  }

  def content(store: VersionedStore): Model.Content = {
    val entries = for {
      family <- store.families if Model.Families.contains(family.name)
      group <- store.manifest.partitioning.ownGroups
      entry <- store.backend.scan(family.id, group, null, null)
    } yield (family.name, group, keyOf(family.name, entry.key)) -> new String(entry.value, "UTF-8")
    entries.toMap
  }

  /** Closes what processes that died have left open in this one, which is real. */
  def close(): Unit = stores.foreach(_.close())

  def withLocalFolder[T](body: LocalFolder => T): T = {
    val local = new LocalFolder(() => World.scratch())
    try body(local)
    finally local.close()
  }

  /** The id of an attempt. */
  def newId(): String = new UUID(random.nextLong(), random.nextLong()).toString

  def entryKey(family: String, key: String): Array[Byte] =
    if (family == "p") key.getBytes("UTF-8")
    else
      ByteBuffer
        .allocate(5 + key.length)
        .putInt(1)
        .put("k".getBytes("UTF-8"))
        .put(key.getBytes("UTF-8"))
        .array

  def keyOf(family: String, entryKey: Array[Byte]): String =
    new String(if (family == "p") entryKey else entryKey.drop(5), "UTF-8")

  /** An error of Spark's, or of the user's function. */
  def taskError(message: String): RuntimeException = new World.TaskError(message)

  /** Throws unless this is how things may fail: with a code, as the seed wants it, or as Spark does. */
  def expected(error: Throwable): Unit = error match {
    case violation: Violation => throw violation
    case e: KeystateException => story.reach(s"error ${e.code}")
    case _: StorageFault | _: World.TaskError | _: FileAlreadyExistsException =>
    case other if Option(other.getCause).exists(_.isInstanceOf[StorageFault]) =>
    case other => throw new Violation(s"an error without a code: $other", other)
  }
}

object World {
  private final class TaskError(message: String) extends RuntimeException(message)

  private final val MemoryMB = "64"

  /** Of who only reads. */
  val OfReader: QuerySettings = QuerySettings(withIds = false, StoreSettings(), 1, 0, 0, 1)

  private val onHeap = new HeapStateBackendFactory

  private lazy val onDisk = {
    val factory = new RocksDBStateBackendFactory
    factory.configure(Map("memoryMB" -> MemoryMB))
    factory
  }

  private lazy val folder: File = {
    val shared = new File("/dev/shm")
    val made =
      if (shared.canWrite) Files.createTempDirectory(shared.toPath, "keystate-simulation")
      else Files.createTempDirectory("keystate-simulation")
    made.toFile.deleteOnExit()
    made.toFile
  }

  private def scratch(): File = Files.createTempDirectory(folder.toPath, "store").toFile
}
