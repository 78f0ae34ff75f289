package org.apache.spark.sql.keystate.forget

import java.nio.file.Files

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

/** Which micro-batches forget which keys, as drivers come and go. */
class ForgettingSuite extends AnyFunSuite {
  import ForgetFiles.Listed

  private val key = ForgottenKey(0, 17, Array[Byte](1, 2, 3))

  private def newFiles() =
    new ForgetFiles(new Path(Files.createTempDirectory("keystate-forget").toUri), new Configuration)

  private def run(files: ForgetFiles, replayed: Long*) =
    new Forgetting(files, replayed.contains(_))

  private def hashes(claims: Seq[ForgetClaim]) = claims.map(claim => claim.batch -> claim.keys.size)

  test("the next batch takes a request, and it is told of until nothing is left") {
    val files = newFiles()
    val id = files.request(Seq(key))
    val first = run(files)
    val claim = first.plan(5).head
    assert(claim.requests == Seq(id) && claim.keys.head.bytes.sameElements(key.bytes))
    assert(first.plan(5) == Seq(claim), "another operator of the same batch")
    first.tell(5, 0, Set.empty)
    assert(hashes(first.plan(6)) == Seq(5L -> 1), "batch 5 began with the key")
    first.tell(6, 0, Set(5L))
    // Another run goes on, and does not forget twice.
    val second = run(files)
    assert(hashes(second.plan(7)) == Seq(5L -> 1))
    second.tell(6, 0, Set.empty) // of another batch: a query tells its last progress again
    assert(files.list() == Listed(Set(id), Seq(5L)))
    second.tell(7, 0, Set.empty)
    assert(files.list() == Listed())
    assert(second.plan(8) == Nil && !second.isWaiting)
    assert(run(files).plan(9) == Nil)
  }

  test("a claim is kept while one of its operators has not told") {
    val files = newFiles()
    files.request(Seq(key, key.copy(operator = 2)))
    val forgetting = run(files)
    forgetting.plan(1)
    forgetting.plan(2)
    forgetting.tell(2, 2, Set.empty)
    assert(hashes(forgetting.plan(3)) == Seq(1L -> 2))
    forgetting.tell(3, 0, Set.empty)
    forgetting.tell(3, 2, Set.empty)
    assert(forgetting.plan(4) == Nil)
  }

  test("a replay does what the first try did, whatever was asked since") {
    val files = newFiles()
    files.request(Seq(key))
    assert(hashes(run(files).plan(3)) == Seq(3L -> 1))
    files.request(Seq(key, key))
    val again = run(files, 3)
    assert(hashes(again.plan(3)) == Seq(3L -> 1))
    assert(hashes(again.plan(4)) == Seq(3L -> 1, 4L -> 2))
  }

  test("two drivers plan one batch: the first claim counts for both, also an empty one") {
    val files = newFiles()
    val late = run(files)
    late.plan(2)
    assert(hashes(run(files, 3).plan(3)) == Seq(3L -> 0))
    files.request(Seq(key))
    // It looks for requests, finds one, and does not know of the other driver yet.
    assert(hashes(run(files).plan(3)) == Seq(3L -> 0))
    val another = newFiles()
    another.request(Seq(key))
    val early = run(another).plan(3)
    assert(hashes(run(another, 3).plan(3)) == hashes(early) && early.head.keys.nonEmpty)
  }

  test("no look at all before the first micro-batch of a query") {
    val files = newFiles()
    files.request(Seq(key))
    assert(run(files).plan(0) == Nil)
    assert(hashes(run(files, 0).plan(0)) == Seq(0L -> 0))
  }
}
