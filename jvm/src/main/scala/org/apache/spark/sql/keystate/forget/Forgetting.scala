package org.apache.spark.sql.keystate.forget

import java.util.concurrent.TimeUnit.SECONDS
import java.util.concurrent.atomic.AtomicBoolean
import java.util.{Map => JMap, UUID}

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.util.ThreadUtils

import org.apache.spark.sql.keystate.files.CheckpointOwner
import org.apache.spark.sql.keystate.metrics.Recent

/** Decides which keys the micro-batches of one run of a query forget, in the driver.
  *
  * When a micro-batch is planned, it takes the requests that the run knows, and writes them into
  * its claim before its tasks run. A batch without requests has no claim. A batch that may have
  * been planned by another driver gets no requests, and always a claim, even an empty one: then
  * both drivers use the file that was there first, see `CheckpointOwner`.
  *
  * The run looks for requests when it starts, and then in the background, from time to time: so no
  * batch waits for a look, and it does not matter which batch takes a request.
  *
  * A claim is kept until no partition's newest version has anything left of its keys, not even
  * their removal. Until then each task receives it.
  *
  * @param mayBeReplayed
  *   whether another run may have planned the micro-batch that this run begins with
  */
private[keystate] final class Forgetting(files: ForgetFiles, mayBeReplayed: Long => Boolean)
    extends Logging {
  import Forgetting._

  /** The micro-batch that was planned last, its claim and the unfinished ones, and all requests in
    * claims of this run.
    */
  private var planned = -1L
  private var claims = Vector.empty[ForgetClaim]
  private var claimed = Set.empty[String]

  /** The reports of operators for `planned`: the claims whose keys have data left, by their
    * batches.
    */
  private var told = Map.empty[Long, Set[Long]]

  /** The requests that were found and are in no claim yet. */
  @volatile private var waiting = Set.empty[String]
  @volatile private var lookedAt = 0L
  private val looking = new AtomicBoolean

  /** The claims of a micro-batch, and of those before it whose keys may still be in files. Called
    * before its tasks run, by each operator.
    */
  def plan(batch: Long): Seq[ForgetClaim] = synchronized {
    if (batch != planned) {
      if (planned < 0) begin(batch) else goOn()
      if (!claims.exists(_.batch == batch)) claimWaiting(batch)
      planned = batch
      told = Map.empty
    }
    claims.filter(_.batch <= batch)
  }

  /** Whether there are requests for which a micro-batch without rows should run. */
  def isWaiting: Boolean = {
    lookSometimes()
    waiting.nonEmpty
  }

  /** Takes the report of an operator's tasks in the micro-batch: the claims whose keys have data
    * left, by the batches of these claims.
    */
  def tell(batch: Long, operator: Long, left: Set[Long]): Unit = synchronized {
    if (batch == planned) {
      told += operator -> left
      // It may be the run's last micro-batch.
      deleteDone()
    }
  }

  private def begin(batch: Long): Unit = {
    val replayed = mayBeReplayed(batch)
    // Nobody can ask before the first micro-batch of all.
    if (batch > 0 || replayed) {
      val found = files.list()
      if (found.hasOrigin) CarriedRequests.late(files)
      val listed = if (found.hasOrigin) files.list() else found
      listed.claims.flatMap(files.claimOf(_)).foreach(add)
      if (replayed && !claims.exists(_.batch == batch))
        add(files.claim(ForgetClaim(batch, Nil, Nil)))
      waiting = listed.requests -- claimed
      planned = batch - 1
      deleteDone()
    }
    lookedAt = System.nanoTime
  }

  private def goOn(): Unit = {
    deleteDone()
    if (System.nanoTime - lookedAt > LongNanos) quietly(look()) else lookSometimes()
  }

  private def deleteDone(): Unit = {
    val (done, others) = claims.partition(isDone)
    claims = others
    done.foreach { claim =>
      quietly {
        // The requests first: without their claim they would be done again.
        claim.requests.foreach(files.deleteRequest)
        files.deleteClaim(claim.batch)
      }
    }
  }

  /** Whether a claim is finished: its micro-batch is committed, and the next one found nothing left
    * of the keys.
    */
  private def isDone(claim: ForgetClaim): Boolean = claim.batch < planned &&
    claim.keys.forall(key => told.get(key.operator).exists(left => !left(claim.batch)))

  private def claimWaiting(batch: Long): Unit = {
    val requests = waiting.toSeq.sorted.flatMap(id => files.keysOf(id).map(id -> _))
    if (requests.nonEmpty) {
      add(files.claim(ForgetClaim(batch, requests.map(_._1), requests.flatMap(_._2))))
      logInfo(s"Batch $batch forgets keys, of the requests ${claims.last.requests}")
    }
    waiting = waiting -- claimed -- requests.map(_._1)
  }

  private def add(claim: ForgetClaim): Unit = {
    claims :+= claim
    claimed ++= claim.requests
  }

  private def lookSometimes(): Unit =
    if (System.nanoTime - lookedAt > EachNanos && looking.compareAndSet(false, true))
      inBackground {
        try look()
        finally {
          lookedAt = System.nanoTime
          looking.set(false)
        }
      }

  private def look(): Unit = {
    val listed = files.list()
    synchronized { waiting = listed.requests -- claimed }
    lookedAt = System.nanoTime
  }

  private def inBackground(work: => Unit): Unit = background.execute(() => quietly(work))

  /** A look or a deletion that fails is made again later. */
  private def quietly(work: => Unit): Unit =
    try work
    catch { case NonFatal(e) => logWarning("Could not see to keys that are to be forgotten", e) }
}

private[keystate] object Forgetting {
  private final val Kept = 100

  /** The time between looks in the background, and the time after which a late batch waits for one.
    */
  private val EachNanos = SECONDS.toNanos(5)
  private val LongNanos = SECONDS.toNanos(60)

  private lazy val background = ThreadUtils.newDaemonCachedThreadPool("keystate-forget", 4)

  private val ofRuns: JMap[UUID, Forgetting] = Recent.map(Kept)

  /** The forgetting of the run that this operator belongs to. */
  def of(info: StatefulOperatorStateInfo, conf: => Configuration): Forgetting =
    ofRuns.computeIfAbsent(
      info.queryRunId,
      _ => {
        val checkpoint = new Path(info.checkpointLocation).getParent
        new Forgetting(
          new ForgetFiles(checkpoint, conf),
          CheckpointOwner.mayHaveBegun(checkpoint, _)
        )
      }
    )
}
