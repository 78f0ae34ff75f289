package keystate.backend.auto

import java.io.File

import org.slf4j.LoggerFactory

import keystate.backend.heap.HeapStateBackend
import keystate.backend.rocksdb.RocksDBStateBackendFactory
import keystate.backend.{AdaptiveBackendFactory, KeyedStateBackend, StateBackendFactory}
import keystate.config.Settings
import keystate.errors.{KeystateErrors, NativeLibraryException}

/** The backend that the setting calls `auto`. A store begins on the heap, unless it is known that it
  * won't fit. When state has more than its share of the heap, the largest stores move to RocksDB, and
  * back when there is room again.
  *
  * Why a move is a load, not a copy of entries: the files of the version are there, each kind of
  * backend reads what any other wrote, and the heap is free before RocksDB takes anything. A process
  * that dies in between has changed nothing.
  *
  * Why the share is counted after each load and commit, and not when entries are put: what a
  * transaction changes is on the heap with RocksDB too. The heap beyond the share is for that. What is
  * loaded on demand counts from the load on, as all of it will take.
  *
  * @param heap
  *   is told of the store
  * @param maxHeap
  *   how many bytes the JVM's heap can have
  */
final class AutoStateBackendFactory private[keystate] (heap: HeapShare, maxHeap: () => Long)
    extends StateBackendFactory
    with AdaptiveBackendFactory {
  import AutoStateBackendFactory._

  private val rocksDB = new RocksDBStateBackendFactory
  private var part = 0.0
  private var onHeap = true
  // Whether RocksDB's library is there, as far as that was tried.
  private var canMove = true
  // As the store was when it was on the heap last, or as the manifest said.
  private var bytesPerEntry = 0L

  def this() = this(HeapShare.ofThisJvm, () => Runtime.getRuntime.maxMemory)

  /** Takes `auto.heapShare`, and RocksDB's options as `rocksdb.` and their names. */
  override def configure(options: Map[String, String]): Unit = {
    part = Settings.HeapShare.of(key => options.get(key.stripPrefix(Prefix)))
    val (forRocksDB, own) = options.partition { case (name, _) => name.startsWith(ForRocksDB) }
    own.keys.find(Prefix + _ != Settings.HeapShare.key).foreach { name =>
      throw KeystateErrors.unknownSetting(Prefix + name, Seq(Settings.HeapShare.key))
    }
    rocksDB.configure(forRocksDB.map { case (name, text) => name.stripPrefix(ForRocksDB) -> text })
  }

  override def expect(entries: Long, entryBytes: Long): Unit = if (onHeap && canMove) {
    bytesPerEntry = entryBytes
    heap.expect(this, entryBytes * entries, share).foreach { reason =>
      log.info("A store {}", reason)
      onHeap = false
    }
  }

  // Before most entries are loaded, those that are may be of states with smaller ones.
  override def entryBytes(backend: KeyedStateBackend, entries: Long): Option[Long] = backend match {
    case tables: HeapStateBackend if tables.entriesHeld > entries / 2 =>
      Some((tables.memoryUsed + tables.entriesHeld - 1) / tables.entriesHeld)
    case _ => None
  }

  override def create(maxParallelism: Int, newFolder: () => File): KeyedStateBackend =
    if (onHeap) new HeapStateBackend(maxParallelism)
    else
      try rocksDB.create(maxParallelism, newFolder)
      catch {
        case e: NativeLibraryException =>
          log.warn("All state stays on the heap, for RocksDB can't be used", e)
          canMove = false
          onHeap = true
          new HeapStateBackend(maxParallelism)
      }

  override def report(backend: KeyedStateBackend, entries: Long): Unit = if (canMove) {
    entryBytes(backend, entries).foreach(bytesPerEntry = _)
    val bytes = bytesPerEntry * entries
    backend match {
      case tables: HeapStateBackend => heap.onHeap(this, Math.max(tables.memoryUsed, bytes), share)
      case _ => heap.inRocksDB(this, bytes, share)
    }
  }

  override def beginMove(): Option[String] = {
    val reason = heap.move(this)
    if (reason.isDefined) onHeap = !onHeap
    reason
  }

  override def unloaded(): Unit = heap.remove(this)

  private def share: Long = Math.max(1, (part * maxHeap()).toLong)
}

private object AutoStateBackendFactory {
  private final val Prefix = "spark.keystate."
  private final val ForRocksDB = "rocksdb."
  private val log = LoggerFactory.getLogger(classOf[AutoStateBackendFactory])
}
