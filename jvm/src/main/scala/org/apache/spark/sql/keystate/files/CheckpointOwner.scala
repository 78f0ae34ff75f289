package org.apache.spark.sql.keystate.files

import java.lang.management.ManagementFactory
import java.net.InetAddress
import java.nio.charset.StandardCharsets.UTF_8
import java.time.Instant
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

import scala.util.Using
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileAlreadyExistsException, Path}
import org.json4s.JsonDSL._
import org.json4s.jackson.JsonMethods
import org.json4s.{DefaultFormats, Formats, JString}

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import keystate.errors.KeystateErrors

/** Decides which of the drivers that know a checkpoint may write to it: the one that came last.
  *
  * A query's run takes the checkpoint before it reads its logs, and so does an offline change. To
  * take it, a driver writes `_keystate/owners/<n>`, where n is one more than the highest number
  * there. Such a file is written once and never replaced. So if two drivers come at the same time,
  * one gets n and the other n + 1. Owner n looks for n + 1 before each entry of the commit log and of a
  * file source's log, and before each entry of the offset log and each plan of a micro-batch, unless
  * it did so less than 200 ms before. If n + 1 is there, owner n
  * fails and writes nothing more. Without the look at the source's log owner n could get the entry
  * that n + 1 is about to write; then n + 1 would fail on it, and n at its next look.
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
  private implicit val formats: Formats = DefaultFormats
  private val Format = 1
  private val Ended = ".ended"
  private val Offsets = "offsets"
  private val Commits = "commits"
  private val Logs = Set(Offsets, Commits)
  private val Sources = "sources"

  /** How many owner files are kept. A driver that wakes up after this many others have come can no
    * longer see that it lost the checkpoint.
    */
  private val Kept = 100

  /** How long a look counts for what follows at the beginning of a batch. */
  private final val LookNanos = 200000000L

  private sealed trait Claim { def run: String }
  private final case class Held(
      number: Long,
      run: String,
      files: CheckpointFileManager,
      memory: Option[RunMemory]
  ) extends Claim {

    /** The last micro-batch that had an entry in the offset log when the checkpoint was taken, if
      * what this run reads and writes there is what it found then.
      */
    @volatile var begun: Option[Long] = None

    /** When it last looked for another owner as a batch began, by `System.nanoTime`. */
    val lookedAt = new AtomicLong(System.nanoTime - LookNanos)
  }
  private final case class Failed(run: String, cause: Throwable) extends Claim

  /** What this driver holds, by `plainPlace` of a checkpoint: who asks may name it in another way
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
    val files = CheckpointFiles.create(folder(checkpoint), conf)
    checkFinished(checkpoint, files)
    files.mkdirs(folder(checkpoint))
    val content = JsonMethods.compact(
      ("format" -> Format) ~ ("run" -> run) ~ ("host" -> process.host) ~ ("pid" -> process.pid) ~
        ("process_start" -> process.start) ~ ("time" -> Instant.now.toString)
    )
    def write(number: Long): Long =
      try {
        CheckpointFiles
          .write(files, file(checkpoint, number), overwriteIfPossible = false)(
            _.write(content.getBytes(UTF_8))
          )
        number
      } catch { case _: FileAlreadyExistsException => write(number + 1) }
    val known = numbers(checkpoint, files)
    val number = write(known.maxOption.getOrElse(0L) + 1)
    val memory = Option.when(CheckpointFiles.managesLogs(conf)) {
      new RunMemory(checkpoint, Thread.currentThread)
    }
    val held = Held(number, run, files, memory)
    claims.put(CheckpointFiles.plainPlace(checkpoint), held)
    if (!files.isLocal) memory.foreach(new FirstReads(checkpoint, files, _).run())
    if (memory.isDefined)
      held.begun = Some(QueryLogs.offsets(conf, checkpoint).batches.lastOption.getOrElse(-1L))
    known.filter(_ <= number - Kept).foreach { old =>
      files.delete(file(checkpoint, old))
      files.delete(ended(checkpoint, old))
    }
  }

  /** From now on this driver writes nothing to the logs, and the query fails with `cause`. */
  def fail(checkpoint: Path, run: String, cause: Throwable): Unit =
    claims.put(CheckpointFiles.plainPlace(checkpoint), Failed(run, cause)): Unit

  /** Gives up the checkpoint if this run holds it. Others can then see that the run has ended. */
  def release(checkpoint: Path, run: String): Unit =
    for (claim <- Option(claimOf(checkpoint)) if claim.run == run) {
      claims.remove(CheckpointFiles.plainPlace(checkpoint), claim)
      claim match {
        case Held(number, _, files, _) =>
          // The folder of a query without a checkpoint location is gone by now.
          try
            if (files.exists(file(checkpoint, number)))
              CheckpointFiles
                .write(files, ended(checkpoint, number), overwriteIfPossible = true)(_ => ())
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
    case Held(number, run, files, _) =>
      if (files.exists(file(checkpoint, number + 1)))
        throw KeystateErrors.fenced(s"$checkpoint", run, describe(checkpoint, number + 1, files))
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

  /** The last micro-batch that a query of this driver may begin. Its keys, and the two sets below,
    * are as those of `claims`.
    */
  private val limits = new ConcurrentHashMap[Path, Long]

  /** Lets a query of this driver begin no micro-batch after `last`; None: any. It waits before it
    * writes the entry in its offset log, so of that micro-batch nobody has seen anything. When it is
    * stopped, Spark interrupts its thread, and so it ends.
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

  /** Does `check` before a micro-batch gets its entry in the offset log, and before it is planned.
    * What was looked for just before counts: a batch that begins writes the logs of its sources,
    * then its own entry, and is then planned. A restart plans one whose entry is there already.
    */
  def checkBegin(checkpoint: Path): Unit = claimOf(checkpoint) match {
    case held: Held if System.nanoTime - held.lookedAt.get < LookNanos =>
    case _ =>
      check(checkpoint)
      noteLook(checkpoint)
  }

  /** Whether another run may have begun a micro-batch that this driver's run begins with: it may
    * have been planned, and may even run now. False if this run wrote its entry in the offset log,
    * which can be written once only.
    */
  def mayHaveBegun(checkpoint: Path, batch: Long): Boolean = claimOf(checkpoint) match {
    case held: Held => held.begun.forall(batch <= _)
    case _ => true
  }

  private def noteLook(checkpoint: Path): Unit = claimOf(checkpoint) match {
    case held: Held => held.lookedAt.set(System.nanoTime)
    case _ =>
  }

  /** Throws where a query whose start failed looks into one of its logs, if the checkpoint is not
    * complete. Else Spark's own checks come first, and speak of folders that are not empty.
    */
  def checkRead(log: Path, files: CheckpointFileManager): Unit =
    checkpointOf(log).filter(claimOf(_).isInstanceOf[Failed]).foreach(checkFinished(_, files))

  /** What the run knows that holds the checkpoint of a path. */
  private[files] def memoryOf(path: Path): Option[RunMemory] =
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

  /** Another process of this machine that owns the checkpoint and is still running. None if there
    * is none. Whether a process of another machine is running can't be told here.
    */
  def aliveElsewhere(checkpoint: Path, conf: Configuration): Option[String] =
    notEnded(checkpoint, conf)
      .filter(owner => owner.process.isHere && owner.pid != process.pid && owner.process.mayRun)
      .map(_.toString)

  /** Whether a run that has the checkpoint may go on. It does not if its process was killed on this
    * machine.
    */
  def mayBeAlive(checkpoint: Path, conf: Configuration): Boolean =
    notEnded(checkpoint, conf).exists(_.process.mayRun)

  private def notEnded(checkpoint: Path, conf: Configuration): Option[Owner] = {
    val files = CheckpointFiles.create(folder(checkpoint), conf)
    for {
      number <- numbers(checkpoint, files).maxOption
      if !files.exists(ended(checkpoint, number))
      owner <- read(checkpoint, number, files)
    } yield owner
  }

  private def describe(checkpoint: Path, number: Long, files: CheckpointFileManager): String =
    read(checkpoint, number, files).fold("another driver")(_.toString)

  /** None if the file can't be read: it only serves to name the owner. */
  private def read(checkpoint: Path, number: Long, files: CheckpointFileManager): Option[Owner] =
    try
      Using.resource(files.open(file(checkpoint, number))) { in =>
        Some(JsonMethods.parse(new String(in.readAllBytes(), UTF_8)).extract[Owner])
      }
    catch { case NonFatal(_) => None }

  private def numbers(checkpoint: Path, files: CheckpointFileManager): Seq[Long] =
    CheckpointFiles.names(files, folder(checkpoint)).flatMap(_.toLongOption)

  /** The file that a checkpoint has while it is made in its place, and once it is deleted or moved. */
  def unfinished(checkpoint: Path): Path = new Path(checkpoint, "_keystate/unfinished")

  /** Fails where the copying of a checkpoint was cut off. */
  def checkFinished(checkpoint: Path, files: CheckpointFileManager): Unit =
    if (files.exists(unfinished(checkpoint)))
      throw moved(checkpoint, files).fold(KeystateErrors.unfinished(s"$checkpoint")) { to =>
        KeystateErrors.moved(s"$checkpoint", to)
      }

  /** From now on no query starts on a checkpoint: another one has its place. */
  def move(checkpoint: Path, to: Path, files: CheckpointFileManager): Unit =
    CheckpointFiles.write(files, unfinished(checkpoint), overwriteIfPossible = false)(
      _.write(JsonMethods.compact("moved" -> s"$to").getBytes(UTF_8))
    )

  /** The checkpoint that has the place of this one. */
  def moved(checkpoint: Path, files: CheckpointFileManager): Option[String] =
    CheckpointFiles
      .readIfThere(files, unfinished(checkpoint))
      .flatMap(json => JsonMethods.parseOpt(new String(json, UTF_8)))
      .map(_ \ "moved")
      .collect { case JString(to) => to }

  private def folder(checkpoint: Path) = new Path(checkpoint, "_keystate/owners")
  private def file(checkpoint: Path, number: Long) = new Path(folder(checkpoint), s"$number")
  private def ended(checkpoint: Path, number: Long) =
    new Path(folder(checkpoint), s"$number$Ended")

  private def process = KnownProcess.current

  private final case class Owner(
      run: String,
      host: String,
      pid: Long,
      process_start: Long,
      time: String
  ) {
    def process: KnownProcess = KnownProcess(host, pid, process_start)
    override def toString: String = s"$run (process $pid on $host, since $time)"
  }
}

/** A process, as others can tell whether it still runs.
  *
  * @param start
  *   when it started, in ms: its number alone is not unique, because numbers are used again
  */
private[keystate] final case class KnownProcess(host: String, pid: Long, start: Long) {

  /** Whether it is of this machine. */
  def isHere: Boolean = host == KnownProcess.current.host

  /** False if it has ended, which can be told of this machine's only. */
  def mayRun: Boolean = !isHere || KnownProcess.isAlive(this)
}

private[keystate] object KnownProcess {
  lazy val current: KnownProcess = {
    val host =
      try InetAddress.getLocalHost.getHostName
      catch { case NonFatal(_) => ManagementFactory.getRuntimeMXBean.getName }
    KnownProcess(host, ProcessHandle.current.pid, startOf(ProcessHandle.current))
  }

  private def isAlive(known: KnownProcess): Boolean =
    Option(ProcessHandle.of(known.pid).orElse(null))
      .exists(process => process.isAlive && startOf(process) == known.start)

  private def startOf(process: ProcessHandle): Long =
    process.info.startInstant.map[Long](_.toEpochMilli).orElse(0L)
}
