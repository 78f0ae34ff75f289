package keystate.backend.auto

import java.io.File

import org.slf4j.LoggerFactory

import keystate.backend.heap.HeapStateBackend
import keystate.backend.rocksdb.RocksDBStateBackendFactory
import keystate.backend.{AdaptiveBackendFactory, KeyedStateBackend, StateBackendFactory}
import keystate.config.Settings
import keystate.errors.{KeystateErrors, NativeLibraryException}

/** The backend `auto`. A store starts on the heap, unless it is known not to fit. When state
  * exceeds its share of the heap, the largest stores move to RocksDB, and move back when there is
  * room again.
  *
  * Why a move is a load and not a copy of entries: the version's files exist, each kind of backend
  * reads the files of any other, and the heap is free before RocksDB takes anything. A process that
  * dies during the move has changed nothing.
  *
  * Why the share is checked after each load and commit, and not at each put: a transaction's
  * changes are on the heap with RocksDB too, and the heap beyond the share is for them. A version
  * that is loaded on demand counts with its full size from the load on.
  *
  * @param heap
  *   receives the store's size
  * @param maxHeap
  *   the maximum bytes of the JVM's heap
  */
final class AutoStateBackendFactory private[keystate] (heap: HeapShare, maxHeap: () => Long)
    extends StateBackendFactory
    with AdaptiveBackendFactory {
  import AutoStateBackendFactory._

  private val rocksDB = new RocksDBStateBackendFactory
  private var part = 0.0
  private var onHeap = true
  // Whether RocksDB's library is available; true until a try fails.
  private var canMove = true
  // The size when the store was last on the heap, or the one in the manifest.
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

  // Until most entries are loaded, the loaded ones may belong to states with smaller entries.
  override def entryBytes(backend: KeyedStateBackend, entries: Long): Option[Long] = backend match {
    case tables: HeapStateBackend =>
      val held = tables.entriesHeld
      Option.when(held > entries / 2)((tables.memoryUsed + held - 1) / held)
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
