package org.apache.spark.sql.keystate.files

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

import scala.annotation.tailrec
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import keystate.errors.KeystateErrors
import keystate.files.KnownProcess

/** Decides which of several drivers may write to a checkpoint: the one that came last.
  *
  * It also decides which may be written to: a checkpoint or its changed copy, see `move` and
  * `moveBack`.
  *
  * A query's run takes the checkpoint before it reads its logs, and so does an offline change. To
  * take it, a driver writes `_keystate/owners/<n>`, where n is one more than the highest number
  * there. Such a file is written once and never replaced. So if two drivers come at the same time,
  * one gets n and the other n + 1. Owner n looks for n + 1 before each entry of the commit log and
  * of a file source's log, and before each entry of the offset log and each plan of a micro-batch,
  * unless it did so less than 200 ms before. If n + 1 exists, owner n fails and writes nothing
  * more. Without the look before the source's log, owner n could write the entry that n + 1 is
  * about to write; then n + 1 would fail on it, and n at its next look.
  *
  * Another driver can come between the look and the write. No lock is needed for that, for three
  * reasons:
  *   - Spark's log entries are written once, so only one of two drivers gets a micro-batch into the
  *     commit log;
  *   - the state files of two drivers have different names. With checkpoint format v1 and the same
  *     number of partitions the names are equal, but so is the content;
  *   - the number of partitions of a micro-batch's state is read from that state (see
  *     [[CommittedPartitions]]), not from the log entry that a rescale edits.
  */
private[keystate] object CheckpointOwner extends Logging {
  private val Offsets = "offsets"
  private val Commits = "commits"
  private val Logs = Set(Offsets, Commits)
  private val Sources = "sources"

  /** How many owner files are kept. A driver that wakes up after this many later owners can no
    * longer see that it lost the checkpoint.
    */
  private val Kept = 100

  /** How long a look counts for the next steps at the beginning of a batch. */
  private final val LookNanos = 200000000L

  private sealed trait Claim { def run: String }

  /** A number among the owners of a checkpoint. */
  private final case class Place(number: Long, owners: OwnerFiles)

  /** @param place
    *   in the original of a successor, as long as that may go on again
    */
  private final case class Held(
      number: Long,
      run: String,
      owners: OwnerFiles,
      place: Option[Place],
      memory: Option[CheckpointCache]
  ) extends Claim {

    /** The last micro-batch with an entry in the offset log when the checkpoint was taken, if this
      * run still reads and writes the entries that it found then.
      */
    @volatile var begun: Option[Long] = None

    /** When it last looked for another owner as a batch began, by `System.nanoTime`. */
    val lookedAt = new AtomicLong(System.nanoTime - LookNanos)
  }
  private final case class Failed(run: String, cause: Throwable) extends Claim

  /** The claims of this driver, by `plainPlace` of a checkpoint: callers may name it in another way
    * than Spark. Spark lets a driver run only one query at a time on a checkpoint.
    */
  private val claims = new ConcurrentHashMap[Path, Claim]

  /** Null if this driver holds nothing there. */
  private def claimOf(checkpoint: Path): Claim = claims.get(CheckpointFiles.plainPlace(checkpoint))

  /** Makes this driver the owner. If it is for a query's run, this is called by the run's own thread.
    *
    * @param run
    *   what this driver does there, for messages in other drivers
    */
  def take(checkpoint: Path, conf: Configuration, run: String): Unit = {
    val owners = ownersOf(checkpoint, conf)
    checkNotCutOff(checkpoint, owners.files)
    @tailrec def append(): (owners.Found, Long) = {
      val found = owners.list()
      found.movedTo.foreach(to => throw KeystateErrors.moved(s"$checkpoint", to))
      if (owners.append(found.last, run)) (found, found.last + 1) else append()
    }
    val (found, number) = append()
    val place =
      try found.successor.flatMap(takePlace(checkpoint, _, run, conf))
      catch {
        case e: Throwable =>
          owners.writeEnded(number)
          throw e
      }
    val memory = Option.when(CheckpointFiles.managesLogs(conf)) {
      new CheckpointCache(checkpoint, Thread.currentThread)
    }
    val held = Held(number, run, owners, place, memory)
    claims.put(CheckpointFiles.plainPlace(checkpoint), held)
    if (!owners.files.isLocal)
      memory.foreach(new CheckpointPrefetch(checkpoint, owners.files, _).run())
    if (memory.isDefined) held.begun = Some(lastOf(QueryLogs.offsets(conf, checkpoint).batches))
    found.numbers.filter(_ <= number - Kept).foreach(owners.delete)
  }

  /** Also takes the place of a successor's original, if that has moved to the successor. So a
    * driver that starts the successor and a driver that lets the original go on again see each
    * other. None if nobody can let the original go on: it is gone, or belongs to another query.
    */
  private def takePlace(
      checkpoint: Path,
      successor: OwnerFiles.Successor,
      run: String,
      conf: Configuration
  ): Option[Place] = {
    val original = new Path(successor.original)
    val owners = ownersOf(original, conf)
    def goesOn = !owners.files.exists(unfinished(original)) &&
      QueryLogs.query(original, owners.files).contains(successor.query)
    @tailrec def append(): Place = {
      val found = owners.list()
      if (!found.movedTo.exists(to => CheckpointFiles.isSamePlace(new Path(to), checkpoint)))
        throw KeystateErrors.notPromoted(s"$checkpoint", s"${found.movedTo.getOrElse(original)}")
      if (owners.append(found.last, run, found.movedTo)) Place(found.last + 1, owners)
      else append()
    }
    Option.when(goesOn)(append()).filter { _ =>
      val isBack = lastOf(QueryLogs.commits(conf, checkpoint).batches) <= successor.batch
      // The successor has gone on by itself, so there is no way back.
      if (!isBack) owners.files.delete(new Path(checkpoint, OwnerFiles.SuccessorFile))
      isBack
    }
  }

  /** Names this driver's place among the owners: owners of one checkpoint differ by their number,
    * after the last `-`, and a later one has a higher number. None if this driver holds nothing
    * there.
    */
  def placeOf(checkpoint: Path): Option[String] = Option(claimOf(checkpoint)).collect {
    case held: Held =>
      f"${CheckpointFiles.plainPlace(checkpoint).toString.hashCode}%08x-${held.number}"
  }

  private def lastOf(batches: Seq[Long]): Long = batches.lastOption.getOrElse(-1L)

  private def ownersOf(checkpoint: Path, conf: Configuration) =
    new OwnerFiles(checkpoint, CheckpointFiles.create(checkpoint, conf))

  /** From now on this driver writes nothing to the logs, and the query fails with `cause`. */
  def fail(checkpoint: Path, run: String, cause: Throwable): Unit =
    claims.put(CheckpointFiles.plainPlace(checkpoint), Failed(run, cause)): Unit

  /** Gives up the checkpoint if this run holds it. Others can then see that the run has ended. */
  def release(checkpoint: Path, run: String): Unit =
    for (claim <- Option(claimOf(checkpoint)) if claim.run == run) {
      claims.remove(CheckpointFiles.plainPlace(checkpoint), claim)
      claim match {
        case held: Held =>
          // The folder of a query without a checkpoint location is gone by now.
          try
            if (held.owners.files.exists(held.owners.file(held.number)))
              held.owners.writeEnded(held.number)
          catch { case NonFatal(e) => logDebug(s"Could not tell that $checkpoint is free", e) }
        case _: Failed =>
      }
    }

  /** Throws if another driver has taken the checkpoint from this one, or if this one could not take
    * it. Does nothing if this driver never took it.
    */
  def check(checkpoint: Path): Unit = claimOf(checkpoint) match {
    case null =>
    case Failed(_, cause) => throw cause
    case held: Held =>
      // Also the place in the original: the undone checkpoint is deleted, with its owners.
      (Place(held.number, held.owners) +: held.place.toSeq).foreach { place =>
        if (place.owners.files.exists(place.owners.file(place.number + 1)))
          throw fenced(held.run, place.number, place.owners)
      }
  }

  /** Does `check` before an entry of a query's log is written: `offsets/7`, `commits/7`, or
    * `sources/0/7`.
    */
  def checkWrite(path: Path): Unit =
    for (log <- Option(path.getParent); checkpoint <- checkpointOf(log))
      if (log.getName == Offsets) {
        path.getName.toLongOption.foreach(awaitLimit(checkpoint, _))
        checkBegin(checkpoint)
      } else {
        check(checkpoint)
        if (log.getName != Commits) noteLook(checkpoint)
      }

  /** The last micro-batch that a query of this driver may begin. This map and the two sets below
    * have the keys of `claims`.
    */
  private val limits = new ConcurrentHashMap[Path, Long]

  /** Lets a query of this driver begin no micro-batch after `last`; None removes the limit. The
    * query waits before it writes the entry in its offset log, so nobody has seen anything of that
    * micro-batch. When the query is stopped, Spark interrupts its thread, and so the wait ends.
    */
  def limit(checkpoint: Path, last: Option[Long]): Unit = limits.synchronized {
    val place = CheckpointFiles.plainPlace(checkpoint)
    last.fold(limits.remove(place))(limits.put(place, _))
    limits.notifyAll()
  }

  private val onHold = ConcurrentHashMap.newKeySet[Path]
  private val waiting = ConcurrentHashMap.newKeySet[Path]

  /** Lets a query of this driver begin no micro-batch until `letGo`: it waits as with `limit`. */
  def hold(checkpoint: Path): Unit =
    onHold.add(CheckpointFiles.plainPlace(checkpoint)): Unit

  def letGo(checkpoint: Path): Unit = limits.synchronized {
    onHold.remove(CheckpointFiles.plainPlace(checkpoint))
    limits.notifyAll()
  }

  /** Whether a query waits to begin a micro-batch. */
  def isWaiting(checkpoint: Path): Boolean =
    waiting.contains(CheckpointFiles.plainPlace(checkpoint))

  private def awaitLimit(checkpoint: Path, batch: Long): Unit =
    if (!limits.isEmpty || !onHold.isEmpty) limits.synchronized {
      val place = CheckpointFiles.plainPlace(checkpoint)
      def mayBegin = !onHold.contains(place) && Option(limits.get(place)).forall(batch <= _)
      if (!mayBegin)
        try {
          waiting.add(place)
          while (!mayBegin) limits.wait()
        } finally
          waiting.remove(place): Unit
    }

  /** Runs `check` before a micro-batch gets its entry in the offset log, and before it is planned.
    * A recent look counts: a batch that begins writes the logs of its sources, then its own entry,
    * and is then planned. A restart plans a batch that already has its entry.
    */
  def checkBegin(checkpoint: Path): Unit = claimOf(checkpoint) match {
    case held: Held if System.nanoTime - held.lookedAt.get < LookNanos =>
    case _ =>
      check(checkpoint)
      noteLook(checkpoint)
  }

  /** Whether another run may have started a micro-batch that this driver's run begins with: it may
    * have been planned, and may even run now. False if this run wrote its entry in the offset log,
    * which can be written only once.
    */
  def mayHaveBegun(checkpoint: Path, batch: Long): Boolean = claimOf(checkpoint) match {
    case held: Held => held.begun.forall(batch <= _)
    case _ => true
  }

  private def noteLook(checkpoint: Path): Unit = claimOf(checkpoint) match {
    case held: Held => held.lookedAt.set(System.nanoTime)
    case _ =>
  }

  /** Throws if a query whose start failed reads one of its logs while the checkpoint is incomplete.
    * Otherwise Spark's own checks would come first, and complain of folders that are not empty.
    */
  def checkRead(log: Path, files: CheckpointFileManager): Unit =
    checkpointOf(log).filter(claimOf(_).isInstanceOf[Failed]).foreach(checkFinished(_, files))

  /** The cache of the run that holds the checkpoint of a path. */
  private[files] def cacheOf(path: Path): Option[CheckpointCache] =
    if (claims.isEmpty) None
    else
      Iterator
        .iterate(CheckpointFiles.plainPlace(path))(_.getParent)
        .takeWhile(_ != null)
        .map(claims.get)
        .collectFirst { case held: Held => held.memory }
        .flatten

  /** The checkpoint of a folder of a log: `offsets`, `commits` or `sources/0`. */
  private def checkpointOf(log: Path): Option[Path] = Option(log.getParent).flatMap { parent =>
    if (Logs(log.getName)) Some(parent)
    else if (parent.getName == Sources) Option(parent.getParent)
    else None
  }

  /** Another process of this machine that owns the checkpoint and still runs. None if there is
    * none. Processes of other machines can't be checked here.
    */
  def aliveElsewhere(checkpoint: Path, conf: Configuration): Option[String] =
    notEnded(checkpoint, conf)
      .filter { owner =>
        val process = owner.process
        process.isHere && process.pid != KnownProcess.current.pid && process.mayRun
      }
      .map(_.toString)

  /** Whether a run that has the checkpoint may still go on: not if its process was killed on this
    * machine.
    */
  def mayBeAlive(checkpoint: Path, conf: Configuration): Boolean =
    notEnded(checkpoint, conf).exists(_.process.mayRun)

  /** Whether anybody has ever taken a checkpoint. */
  def wasTaken(checkpoint: Path, conf: Configuration): Boolean =
    ownersOf(checkpoint, conf).list().numbers.nonEmpty

  private def notEnded(checkpoint: Path, conf: Configuration): Option[OwnerFiles.Owner] = {
    val owners = ownersOf(checkpoint, conf)
    val found = owners.list()
    // After the checkpoint has moved nobody owns it.
    Option.unless(found.isEnded(found.last))(found.last).flatMap(owners.read).filter {
      _.moved_to.isEmpty
    }
  }

  private def fenced(run: String, number: Long, owners: OwnerFiles) = KeystateErrors.fenced(
    s"${owners.checkpoint}",
    run,
    owners.read(number + 1).fold("another driver")(_.toString)
  )

  /** The file that a checkpoint has while it is made in its place, and once it is deleted. */
  def unfinished(checkpoint: Path): Path = new Path(checkpoint, "_keystate/unfinished")

  /** Fails where the copying of a checkpoint was cut off, and where another one has its place. */
  def checkFinished(checkpoint: Path, files: CheckpointFileManager): Unit = {
    checkNotCutOff(checkpoint, files)
    moved(checkpoint, files).foreach(to => throw KeystateErrors.moved(s"$checkpoint", to))
  }

  private def checkNotCutOff(checkpoint: Path, files: CheckpointFileManager): Unit =
    if (files.exists(unfinished(checkpoint))) throw KeystateErrors.unfinished(s"$checkpoint")

  /** The checkpoint that has the place of this one. */
  def moved(checkpoint: Path, files: CheckpointFileManager): Option[String] =
    new OwnerFiles(checkpoint, files).list().movedTo

  /** The original of a copy that will replace it, or has just replaced it. */
  def successor(checkpoint: Path, files: CheckpointFileManager): Option[OwnerFiles.Successor] =
    new OwnerFiles(checkpoint, files).list().successor

  /** Makes a successor take the place of a checkpoint that this driver has. From now on no query
    * starts on the checkpoint. Fails if another driver has taken it.
    */
  def move(checkpoint: Path, to: Path): Unit = claimOf(checkpoint) match {
    case held: Held =>
      if (!held.owners.append(held.number, held.run, Some(s"$to")))
        throw fenced(held.run, held.number, held.owners)
    case other => throw new IllegalStateException(s"$checkpoint is not taken: $other")
  }

  /** Lets the original of a successor, which this driver has, go on again. From now on no query
    * starts on the successor. Fails if another driver has taken that.
    */
  def moveBack(successor: Path): Unit = claimOf(successor) match {
    case Held(_, run, _, Some(Place(number, owners)), _) =>
      if (!owners.append(number, run)) throw fenced(run, number, owners)
      owners.writeEnded(number + 1)
    case other => throw new IllegalStateException(s"$successor has no original: $other")
  }
}
