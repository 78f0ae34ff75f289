package keystate.backend.auto

import java.io.File

import org.slf4j.LoggerFactory

import keystate.backend.heap.{HeapStateBackend, LoadGuard}
import keystate.backend.rocksdb.RocksDBStateBackendFactory
import keystate.backend.{AdaptiveBackendFactory, KeyedStateBackend, MoveNeeded, StateBackendFactory}
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
  * Why the share is counted after each load and commit, and while entries are loaded, but not when
  * they are put: what a transaction changes is on the heap with RocksDB too. The heap beyond the
  * share is for that.
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
  // As the store was when it was on the heap last.
  private var bytesPerEntry = 0.0
  // Of the backend that counts: one that was given up may still be in use by another thread.
  @volatile private var guard = LoadGuard.None

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

  /** By what its entries took when it was on the heap last, or by the least that those of any store
    * of this JVM take. In a JVM that has seen none yet it begins on the heap.
    */
  override def expect(entries: Long): Unit = if (onHeap && canMove) {
    val each = if (bytesPerEntry > 0) bytesPerEntry else heap.bytesPerEntry
    heap.expect(this, (each * entries).toLong, share).foreach { reason =>
      log.info("A store {}", reason)
      onHeap = false
      bytesPerEntry = each
    }
  }

  override def create(maxParallelism: Int, newFolder: () => File): KeyedStateBackend =
    if (onHeap) {
      guard = new Guard
      new HeapStateBackend(maxParallelism, guard)
    } else
      try rocksDB.create(maxParallelism, newFolder)
      catch {
        case e: NativeLibraryException =>
          log.warn("All state stays on the heap, for RocksDB can't be used", e)
          canMove = false
          onHeap = true
          new HeapStateBackend(maxParallelism)
      }

  override def report(backend: KeyedStateBackend, entries: Long): Unit = if (canMove)
    backend match {
      case tables: HeapStateBackend =>
        measure(tables.memoryUsed, tables.entriesHeld)
        heap.onHeap(this, tables.memoryUsed, share)
      case _ => heap.inRocksDB(this, (bytesPerEntry * entries).toLong, share)
    }

  override def beginMove(): Option[String] = {
    val reason = heap.move(this)
    if (reason.isDefined) onHeap = !onHeap
    reason
  }

  override def unloaded(): Unit = {
    guard = LoadGuard.None
    heap.remove(this)
  }

  private def share: Long = Math.max(1, (part * maxHeap()).toLong)

  private final class Guard extends LoadGuard {
    override def loading(bytes: Long, entries: Long): Unit = if (this eq guard) {
      measure(bytes, entries)
      heap.loading(AutoStateBackendFactory.this, bytes, share).foreach { reason =>
        onHeap = false
        unloaded()
        throw new MoveNeeded(reason)
      }
    }
  }

  private def measure(bytes: Long, entries: Long): Unit = if (entries > 0) {
    bytesPerEntry = bytes.toDouble / entries
    heap.measured(bytes, entries)
  }
}

private object AutoStateBackendFactory {
  private final val Prefix = "spark.keystate."
  private final val ForRocksDB = "rocksdb."
  private val log = LoggerFactory.getLogger(classOf[AutoStateBackendFactory])
}
