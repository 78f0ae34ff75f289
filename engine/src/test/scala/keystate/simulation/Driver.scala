package keystate.simulation

import java.nio.charset.StandardCharsets.UTF_8

import scala.annotation.tailrec
import scala.collection.mutable
import scala.util.control.NonFatal

import keystate.checkpoint.Rescaling
import keystate.errors.KeystateErrors
import keystate.files.{CheckpointStorage, StoreLocation}

/** A driver: it takes the checkpoint, rescales it if it is to have another number of partitions,
  * and runs micro-batches. What Spark and Keystate's Spark side do there is done here again
  * (`CheckpointOwner`, `QueryRescaling`, `MicroBatchExecution`), request by request; the tasks and
  * the rescale's files are the engine's.
  *
  * @param wanted
  *   the number of partitions that it is started with; None takes the checkpoint's
  */
final class Driver(world: World, settings: QuerySettings, wanted: Option[Int], val name: String) {
  import world.{random, scheduler, storage, story}

  val process = new Process(name)
  private val logs = new QueryLogs(storage.view)
  private val source = Option.when(world.usesSource)(new Source(world))
  private val executors = mutable.ArrayBuffer.empty[Executor]
  private var number = 0L
  private var partitions = 0
  private var lookedAt = Long.MinValue
  private var committed = 0

  /** What it ended with. None as long as it runs, and if it died. */
  var ended: Option[Either[Throwable, Unit]] = None

  /** Its number among all that took the checkpoint. */
  def owner: Long = number

  def start(batches: Int, maintainsAll: Boolean = false): Unit = {
    world.processes += process
    scheduler.spawn(process, "driver") {
      val end =
        try Right(run(batches, maintainsAll))
        catch { case NonFatal(e) => Left(e) }
      story.tell(scheduler, end.fold(e => s"ends with $e", _ => "ends"))
      ended = Some(end)
      executors.foreach(_.stop())
      end.left.foreach(world.expected)
    }
  }

  private def run(batches: Int, maintainsAll: Boolean): Unit = {
    take()
    partitions = rescale()
    val pending = logs.latestOffsets.filterNot(logs.latestCommit.contains)
    var batch = pending
      .map(_ + (if (world.has(Mutation.SkipsPending)) 1 else 0))
      .getOrElse(logs.latestCommit.fold(0L)(_ + 1))
    var ids =
      if (batch == 0) Seq.fill(partitions)(None) else logs.ids(batch - 1, partitions)
    // Another driver's commit came since: Spark finds too few ids, and the next start rescales again.
    if (ids.size != partitions)
      throw world.taskError(s"there are ${ids.size} ids for $partitions partitions")
    while (committed < batches) {
      val planned = logs.offsets(batch).getOrElse {
        val last = Option.when(batch > 0)(batch - 1).flatMap(logs.offsets).flatMap(_.segment)
        val entry = source.map(_.next(last)) match {
          case None => Offsets(random.nextInt(1000000).toLong, partitions)
          case Some((segment, input)) => Offsets(input, partitions, Some(segment))
        }
        checkBegin()
        QueryLogs.write(createNew(QueryLogs.offsetsPath(batch)), entry)
        last.foreach(segment => source.foreach(_.commit(segment)))
        entry
      }
      checkBegin()
      if (planned.partitions != partitions)
        throw world.taskError(s"the log has ${planned.partitions} partitions, not $partitions")
      val next = runBatch(batch, ids, () => inputOf(planned))
      check()
      QueryLogs.write(
        createNew(QueryLogs.commitPath(batch)),
        Commit(Option.when(settings.withIds)(next.flatten))
      )
      story.tell(scheduler, s"committed batch $batch", "a batch is committed")
      world.acknowledged(this, batch)
      ids = next
      batch += 1
      committed += 1
      if (maintainsAll) executors.foreach(_.maintainNow())
    }
  }

  private def inputOf(planned: Offsets): Long =
    source.zip(planned.segment).fold(planned.input) { case (source, segment) =>
      source.read(segment)
    } + (if (world.has(Mutation.TakesOtherInput)) number else 0)

  private def createNew(path: String) = storage.view.createAtomic(path, mustBeNew = true)

  // As CheckpointOwner does.

  private def take(): Unit = {
    val known = storage.view.list("owners").flatMap(_.name.toLongOption)
    @tailrec def write(number: Long): Long = {
      val done =
        try {
          val out = createNew(s"owners/$number")
          out.write(name.getBytes(UTF_8))
          out.close()
          true
        } catch { case _: java.nio.file.FileAlreadyExistsException => false }
      if (done) number else write(number + 1)
    }
    number = write(known.maxOption.getOrElse(0L) + 1)
    story.tell(scheduler, s"is owner $number")
  }

  private def check(): Unit = if (!world.has(Mutation.NeverLooks)) {
    val next = number + (if (world.has(Mutation.LooksTooFar)) 2 else 1)
    if (storage.view.exists(s"owners/$next")) {
      story.reach("a driver is fenced")
      throw KeystateErrors.fenced("checkpoint", name, s"owner $next")
    }
  }

  private def checkBegin(): Unit = if (scheduler.now - lookedAt >= 200) {
    check()
    lookedAt = scheduler.now
  }

  // As QueryRescaling does.

  private def rescale(): Int = logs.latestOffsets match {
    case None => wanted.getOrElse(1)
    case Some(latest) =>
      val commit = logs.latestCommit
      val before = logs.offsets(latest).get.partitions
      val entries = commit.toSeq.filter(_ < latest) :+ latest
      val pinned = entries.flatMap(logs.offsets).map(_.partitions)
      val current =
        if (world.has(Mutation.TrustsOffsets)) before else commit.fold(before)(logs.partitions)
      val partitions = wanted.getOrElse(current)
      if (current != partitions) {
        story.tell(scheduler, s"rescales from $current to $partitions", "a rescale begins")
        commit.foreach(rescaleStores(_, current, partitions))
      }
      if (current != partitions || pinned.exists(_ != partitions)) {
        if (commit.isEmpty) rescaleNothing(partitions)
        if (!commit.contains(latest)) rescalePending(latest, partitions)
        entries.foreach(replace(_, partitions))
        story.reach("a rescale ends")
      }
      partitions
  }

  private def replace(batch: Long, partitions: Int): Unit = {
    check()
    val entry = logs.offsets(batch).get.copy(partitions = partitions)
    QueryLogs.write(storage.view.createAtomic(QueryLogs.offsetsPath(batch)), entry)
  }

  private def rescaleStores(batch: Long, current: Int, partitions: Int): Unit = {
    val ids = rescaleStore(batch + 1, logs.ids(batch, current), partitions)
    if (ids.head.isDefined && !world.has(Mutation.KeepsIds)) {
      check()
      val out = storage.view.createAtomic(QueryLogs.commitPath(batch))
      QueryLogs.write(out, Commit(Some(ids.flatten)))
    }
  }

  private def rescaleNothing(partitions: Int): Unit = Rescaling.runEmpty(
    storage.view,
    0,
    StoreLocation.DefaultStore,
    world.maxParallelism,
    partitions
  )

  private def rescalePending(batch: Long, partitions: Int): Unit = {
    val counts = logs.complete(batch + 1)
    if (!counts.contains(partitions)) counts.headOption.foreach { count =>
      story.reach("a pending version is rescaled")
      rescaleStore(batch + 1, Seq.fill(count)(None), partitions)
    }
  }

  private def rescaleStore(version: Long, ids: Seq[Option[String]], partitions: Int) =
    world.withLocalFolder { local =>
      Rescaling.run(
        storage.view: CheckpointStorage,
        0,
        StoreLocation.DefaultStore,
        version,
        ids,
        partitions,
        () => world.newId(),
        local
      )
    }

  // As Spark's scheduler does: attempts that fail or are taken for lost are made again, and of
  // several the one counts that ends first.

  private def runBatch(
      batch: Long,
      ids: Seq[Option[String]],
      input: () => Long
  ): Seq[Option[String]] = {
    story.tell(scheduler, s"runs batch $batch over $partitions partitions")
    val attempts = Vector.fill(partitions)(mutable.ArrayBuffer.empty[Attempt])
    val giveUpAt = Array.fill(partitions)(0L)

    def begin(partition: Int): Unit = {
      val executor = pick(partition)
      val attempt = new Attempt(partition, executor)
      attempts(partition) += attempt
      giveUpAt(partition) = scheduler.now + world.patience()
      executor.start(attempt, attempts(partition).size, batch, ids(partition), input)
    }
    def result(partition: Int): Option[Option[String]] =
      attempts(partition).iterator.flatMap(_.outcome).collectFirst { case Outcome.Committed(id) =>
        id
      }
    def failures(partition: Int): Seq[Throwable] =
      attempts(partition).toSeq.flatMap(_.outcome).collect { case Outcome.Failed(e) => e }
    def isOver(partition: Int): Boolean =
      attempts(partition).forall(attempt => attempt.outcome.isDefined || attempt.isLost)
    def isDone(partition: Int): Boolean = result(partition).isDefined

    (0 until partitions).foreach { partition =>
      begin(partition)
      if (random.happens(settings.speculation)) {
        story.reach("two attempts at once")
        begin(partition)
      }
    }
    val until = partitions - (if (world.has(Mutation.CommitsTooSoon)) 1 else 0)
    def open = (0 until until).filterNot(isDone)
    while (open.nonEmpty) {
      scheduler.await(
        open.forall(p => isDone(p)) || open.exists(p => isOver(p)),
        Math.max(1, open.map(giveUpAt(_)).min - scheduler.now)
      )
      open.foreach { partition =>
        failures(partition).foreach(world.expected)
        if (failures(partition).size >= 4) throw failures(partition).last
        if (isOver(partition) || scheduler.now >= giveUpAt(partition)) {
          story.reach(
            if (isOver(partition)) "a task is tried again" else "a task is taken for lost"
          )
          begin(partition)
        }
      }
    }
    (0 until partitions).map { partition =>
      if (partition < until) result(partition).get
      else Option.when(settings.withIds)(world.newId())
    }
  }

  private def pick(partition: Int): Executor = {
    executors.filterInPlace(!_.process.isDead)
    if (executors.size < settings.executors)
      executors += world.newExecutor(process, settings, partitions)
    val favourite = executors(partition % executors.size)
    if (random.nextInt(5) > 0) favourite
    else {
      val other = executors(random.nextInt(executors.size))
      if (random.nextBoolean()) executors.filter(_ ne other).foreach(_.unload(partition))
      other
    }
  }
}
