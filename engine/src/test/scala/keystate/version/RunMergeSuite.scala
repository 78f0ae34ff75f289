package keystate.version

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import keystate.backend.{Change, RunCursor, RunFormat}

class RunMergeSuite extends AnyFunSuite {

  private final class Cursor(changes: Seq[Change]) extends RunCursor {
    private val left = changes.iterator
    var isClosed = false
    override def hasNext: Boolean = left.hasNext
    override def next(): Change = left.next()
    override def close(): Unit = isClosed = true
  }

  private def shown(change: Change) =
    (change.family, change.group, change.key.toSeq, Option(change.value).map(_.toSeq))

  test("for each key the newest run's entry, in order") {
    val seed = System.nanoTime
    info(s"seed $seed")
    val random = new Random(seed)
    for (count <- 0 to 9; keepRemovals <- Seq(true, false); _ <- 1 to 20) {
      val runs = IndexedSeq.fill(count) {
        Seq
          .fill(random.nextInt(30)) {
            val key = Array.fill(random.nextInt(3))((random.nextInt(3) - 1).toByte)
            val value = if (random.nextInt(3) == 0) null else random.nextBytes(2)
            Change(random.nextInt(2), random.nextInt(2), key, value)
          }
          .sorted(RunFormat.order)
          .distinctBy(change => shown(change).copy(_4 = None))
      }
      def isExpired(change: Change) = change.value(0) > 100
      val cursors = runs.map(new Cursor(_))
      val merge = new RunMerge(cursors, keepRemovals, isExpired)
      val newest = runs.foldLeft(Map.empty[(Int, Int, Seq[Byte]), Change]) { (all, run) =>
        all ++ run.map(change => (change.family, change.group, change.key.toSeq) -> change)
      }
      val expected = newest.values.toSeq
        .map(each => if (each.value != null && isExpired(each)) each.copy(value = null) else each)
        .filter(keepRemovals || _.value != null)
        .sorted(RunFormat.order)
      assert(merge.map(shown).toSeq == expected.map(shown))
      merge.close()
      assert(cursors.forall(_.isClosed))
    }
  }
}
