package keystate.checkpoint

import java.io.File
import java.nio.ByteBuffer

import org.rocksdb._
import org.scalatest.funsuite.AnyFunSuite

import keystate.backend.{Change, Layout, RestoredRun, RestoresFromFiles, RunFile, StateFamily}
import keystate.files.LocalFolder
import keystate.keygroup.KeyGroupRange
import keystate.version.SstFiles

/** What a lookup reads from files that are several times as large as the memory for them. The reads
  * are those that RocksDB counts, so the file system's cache makes no difference.
  */
class LargerThanMemorySuite extends AnyFunSuite with OnRocksDB {
  private val KeysPerRun = 400000
  private val Lookups = 2000
  // A block or two, compressed; an undivided filter of such a run has 500,000 bytes.
  private val BytesPerLookup = 8000L
  private val point = StateFamily(0, "p", Layout.Point)
  private val groups = KeyGroupRange(0, 7)

  override protected def memoryMB: Int = 4

  test("run files") {
    val local = newLocalFolder()
    val backend = backends.create(groups.last + 1, () => local.newFolder())
    val counts = new ReadCounts(local.newFolder())
    try {
      backend.register(point)
      backend match {
        case b: RestoresFromFiles => b.restore(runFiles(local), groups, (_, _) => 0L)
        case other => fail(s"$other")
      }
      val random = new java.util.SplittableRandom(1)
      def bytesPerLookup(known: Boolean): Long = {
        counts.reset()
        (1 to Lookups).foreach { _ =>
          val n = random.nextInt(2 * KeysPerRun) * 2 + (if (known) 0 else 1)
          assert((backend.get(point.id, groupOf(n), key(n)) != null) == known)
        }
        counts.bytesRead / Lookups
      }
      // The first ones also fill the cache.
      Seq(true, false).foreach(bytesPerLookup)
      val known = bytesPerLookup(known = true)
      val unknown = bytesPerLookup(known = false)
      info(s"$known bytes for a key that is there, $unknown for one that is not")
      assert(known < BytesPerLookup && unknown < BytesPerLookup)
      assert(known > 100, "the state fits into memory: this tests nothing")
    } finally {
      backend.close()
      counts.close()
      local.close()
    }
  }

  /** Two, with every other key of all groups each. */
  private def runFiles(local: LocalFolder): Seq[RestoredRun] = Seq(0, 1).map { run =>
    val file = local.newFile()
    SstFiles.write(file, _.addAll(changes(run)), SstFiles.Small)
    RunFile(file, groups, isWhole = true)
  }

  /** The keys are even numbers. */
  private def changes(run: Int): Iterator[Change] = for {
    group <- Iterator.range(0, groups.last + 1)
    n <- Iterator.range(0, KeysPerRun).map(i => (2 * i + run) * 2)
    if groupOf(n) == group
  } yield Change(point.id, group, key(n), ByteBuffer.allocate(16).putLong(8, n).array)

  private def groupOf(n: Int): Int = (n >> 2) & groups.last

  private def key(n: Int): Array[Byte] = ByteBuffer.allocate(8).putLong(n).array

  /** RocksDB's counts of this thread's reads, in whatever database; it wants one to be asked by. */
  private final class ReadCounts(folder: File) extends AutoCloseable {
    private val options = new Options().setCreateIfMissing(true)
    private val db = RocksDB.open(options, folder.getPath)
    db.setPerfLevel(PerfLevel.ENABLE_COUNT)

    def reset(): Unit = db.getPerfContext.reset()

    def bytesRead: Long = db.getPerfContext.getBlockReadByte

    override def close(): Unit = {
      db.setPerfLevel(PerfLevel.DISABLE)
      db.close()
      options.close()
      folder.listFiles.foreach(_.delete())
    }
  }
}
