package org.apache.spark.sql.keystate.canary

import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.ConcurrentHashMap

import scala.collection.mutable
import scala.util.Try

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.json4s.DefaultFormats
import org.json4s.jackson.Serialization
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.util.Utils

import keystate.errors.KeystateException
import keystate.faults.{FaultFileSystem, FaultPlan, ObjectFileSystem}
import org.apache.spark.sql.keystate.files.{CheckpointFiles, CheckpointOwner, OwnerFiles}
import org.apache.spark.sql.keystate.forget.{ForgetFiles, Forgetting, ForgottenKey}

/** Whatever cuts off a promotion, and whoever starts a query meanwhile: exactly one of the original
  * and the copy can be started. On a file system that only can create a file that is not there.
  */
class PromotionSuite extends AnyFunSuite {
  private val claims = {
    val field = CheckpointOwner.getClass.getDeclaredField("claims")
    field.setAccessible(true)
    field.get(CheckpointOwner).asInstanceOf[ConcurrentHashMap[Any, Any]]
  }

  /** What another driver does, which has nothing that this one has. Returns what it has then. */
  private def elsewhere(body: => Unit): Map[Any, Any] = {
    import scala.jdk.CollectionConverters._
    val own = Map.from(claims.asScala)
    claims.clear()
    try {
      body
      Map.from(claims.asScala)
    } finally {
      claims.clear()
      own.foreach { case (place, claim) => claims.put(place, claim) }
    }
  }

  private final class Case {
    private val folder = Utils.createTempDir(namePrefix = "keystate-promotion")
    private val planned = Utils.createTempDir(namePrefix = "keystate-plan")
    val plan = new FaultPlan(planned)
    val original = new Path(s"objects:$folder/original")
    val copy = new Path(s"objects:$folder/copy")
    private val whole = conf(None)
    private val faulty = conf(Some(s"$planned"))
    put(original, "metadata", """{"id":"this"}""", whole)
    put(original, "commits/0", "v1", whole)

    private def conf(plan: Option[String]): Configuration = {
      val made = new Configuration(false)
      ObjectFileSystem.settings().foreach { case (key, value) => made.set(key, value) }
      plan.foreach(made.set(FaultFileSystem.Plan, _))
      made
    }

    private def put(root: Path, name: String, content: String, conf: Configuration): Unit =
      CheckpointFiles.write(
        CheckpointFiles.create(root, conf),
        new Path(root, name),
        overwriteIfPossible = true
      )(_.write(content.getBytes(UTF_8)))

    private def writeCopy(conf: Configuration): Unit = {
      val named = Serialization.write(OwnerFiles.Successor(s"$original", "this", 0))(DefaultFormats)
      val successor = s"""{"format":1,${named.drop(1)}"""
      put(copy, "_keystate/unfinished", "", conf)
      put(copy, OwnerFiles.SuccessorFile, successor, conf)
      put(copy, "metadata", """{"id":"this"}""", conf)
      put(copy, "commits/0", "v1", conf)
      CheckpointFiles.create(copy, conf).delete(new Path(copy, "_keystate/unfinished"))
    }

    private def promote(conf: Configuration): Unit = {
      val promotion = new Promotion(original, copy, Map(0L -> 1L), conf)
      promotion.begin()
      try {
        writeCopy(conf)
        promotion.run(0)
      } finally promotion.end()
    }

    def promote(): Unit = promote(whole)
    def promoteWithFault(): Unit = promote(faulty)
    def undo(): Boolean = new Promotion(original, copy, Map(0L -> 1L), whole).undo(0)
    def undoWithFault(): Boolean = new Promotion(original, copy, Map(0L -> 1L), faulty).undo(0)

    def start(place: Path): Unit = CheckpointOwner.take(place, whole, "start")

    def commit(place: Path, batch: Long): Unit = put(place, s"commits/$batch", "v1", whole)

    /** The name of the only one that can be started now. */
    def startable: String = {
      // Where there is no checkpoint yet another query would begin.
      val found = Seq(original, copy).filter(hasCheckpoint).filter { place =>
        val tried = Try(elsewhere(start(place)))
        tried.failed.foreach { error =>
          assert(error.isInstanceOf[KeystateException], error)
        }
        tried.isSuccess
      }
      assert(found.size == 1, found)
      found.head.getName
    }

    /** Asks that a key be forgotten. Returns whether that is promised. */
    def ask(): Boolean = Try {
      new ForgetFiles(original, whole).request(Seq(ForgottenKey(0, 7, Array[Byte](1))))
      CheckpointOwner.checkFinished(original, CheckpointFiles.create(original, whole))
    }.isSuccess

    /** The operators that forget it in the next micro-batch of the one that can be started. */
    def forgets: Seq[Long] = {
      val place = if (startable == "copy") copy else original
      val forgetting = new Forgetting(new ForgetFiles(place, whole), _ => false)
      forgetting.plan(1).flatMap(_.keys).map(_.operator)
    }

    def has(place: Path, claimed: Map[Any, Any]): Boolean = {
      var still = false
      elsewhere {
        claimed.foreach { case (place, claim) => claims.put(place, claim) }
        still = claimed.nonEmpty && Try(CheckpointOwner.check(place)).isSuccess
      }: Unit
      still
    }

    def hasCheckpoint(place: Path): Boolean =
      place.getFileSystem(whole).exists(new Path(place, "metadata"))

    /** So nothing tells any more that it has moved. */
    def deleteOwners(place: Path): Unit =
      place.getFileSystem(whole).delete(new Path(place, "_keystate/owners"), true): Unit

    def delete(): Unit = {
      claims.clear()
      Seq(folder, planned).foreach(Utils.deleteRecursively)
    }
  }

  private def withCase[T](test: Case => T): T = {
    val made = new Case
    try test(made)
    finally made.delete()
  }

  /** Runs a test with a fault at each request in turn, until it does not happen any more. */
  private def atEachRequest(action: String)(before: Case => Unit)(test: Case => Any): Unit = {
    val last = Iterator.from(1).find { nth =>
      withCase { one =>
        before(one)
        one.plan.add("fault", "any", nth, action)
        withClue(s"request $nth: ") {
          val _ = test(one)
        }
        !one.plan.happened("fault")
      }
    }
    val _ = assert(last.get > 15) // so many it has at least
  }

  /** How many requests after a forget request a driver may die. */
  private final val LongestTail = 25

  private def promoted(one: Case): Unit = {
    one.promote()
    // The new code begins with the copy, and ends.
    elsewhere(one.start(one.copy)): Unit
  }

  test("a driver dies in a promotion: one can start, and another promotion comes to its end") {
    atEachRequest("dead")(_ => ()) { one =>
      val done = Try(one.promoteWithFault()).isSuccess
      one.plan.clear()
      claims.clear()
      val goesOn = one.startable
      if (done) assert(goesOn == "copy")
      if (goesOn == "original") one.promote()
      assert(one.startable == "copy")
      assert(intercept[KeystateException](one.promote()).code == "KEYSTATE_CHECKPOINT_MOVED")
    }
  }

  test("a driver dies while it undoes a promotion: one can start, and it can be undone again") {
    atEachRequest("dead")(promoted) { one =>
      val done = Try(one.undoWithFault()).isSuccess
      one.plan.clear()
      claims.clear()
      val goesOn = one.startable
      if (done) assert(goesOn == "original")
      if (goesOn == "copy") assert(one.undo())
      assert(one.startable == "original")
      one.promote()
      assert(one.startable == "copy")
    }
  }

  /** Does something, and at one of its requests another driver starts a query. Returns whether it was
    * done, and whether the other driver has the checkpoint.
    */
  private def meanwhile(one: Case, place: Path)(body: => Any): (Boolean, Boolean) = {
    @volatile var done = false
    val works = new Thread(() => done = Try(body).isSuccess)
    works.start()
    while (!one.plan.happened("fault") && works.isAlive) Thread.sleep(1)
    val claimed = Try(elsewhere(if (one.hasCheckpoint(place)) one.start(place)))
    one.plan.release("fault")
    works.join()
    (done, claimed.toOption.exists(one.has(place, _)))
  }

  test("another driver starts the original in a promotion: it runs, or the copy has its place") {
    val seen = mutable.Set.empty[Boolean]
    atEachRequest("hold")(_ => ()) { one =>
      val (done, runs) = meanwhile(one, one.original)(one.promoteWithFault())
      seen += runs
      assert(done != runs)
      assert(one.startable == (if (done) "copy" else "original"))
    }
    assert(seen.size == 2)
  }

  test("a key that is to be forgotten is so, whenever it is asked for and the driver dies") {
    var promised = 0
    val holds = Iterator.from(1).map { held =>
      var happened = true
      Iterator.from(held + 1).take(LongestTail).takeWhile(_ => happened).foreach { dead =>
        withCase { one =>
          one.plan.add("fault", "any", held, "hold")
          one.plan.add("death", "any", dead, "dead")
          val works = new Thread(() => Try(one.promoteWithFault()): Unit)
          works.start()
          while (!one.plan.happened("fault") && works.isAlive) Thread.sleep(1)
          happened = one.plan.happened("fault")
          val isPromised = one.ask()
          one.plan.release("fault")
          works.join()
          claims.clear()
          one.plan.clear()
          if (isPromised) {
            promised += 1
            withClue(s"held at $held, dead at $dead: ") {
              assert(one.forgets == Seq(if (one.startable == "copy") 1L else 0L))
            }
          }
        }
      }
      happened
    }
    val _ = assert(holds.takeWhile(identity).size > 15 && promised > 100)
  }

  test("another driver starts the copy in a promotion: it runs only once that has the place") {
    atEachRequest("hold")(_ => ()) { one =>
      val (done, runs) = meanwhile(one, one.copy)(one.promoteWithFault())
      val goesOn = one.startable
      if (done || runs) assert(goesOn == "copy")
    }
  }

  test("another driver starts the copy while that is undone: it runs, or the original goes on") {
    val seen = mutable.Set.empty[Boolean]
    atEachRequest("hold")(promoted) { one =>
      val (done, runs) = meanwhile(one, one.copy)(one.undoWithFault())
      seen += runs
      assert(done != runs)
      assert(one.startable == (if (done) "original" else "copy"))
    }
    assert(seen.size == 2)
  }

  test("a copy that has gone on is not undone, and nobody takes it for what was left of one") {
    withCase { one =>
      promoted(one)
      one.commit(one.copy, 1)
      assert(!one.undo())
      // From this start on the original is not asked for any more.
      assert(one.startable == "copy")
      one.deleteOwners(one.original)
      elsewhere(one.start(one.copy))
    }
  }
}
