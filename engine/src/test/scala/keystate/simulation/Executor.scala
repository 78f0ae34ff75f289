package keystate.simulation

import scala.collection.mutable
import scala.util.control.NonFatal

import keystate.backend.Layout
import keystate.backend.auto.HeapShare
import keystate.checkpoint.{OperatorList, OperatorState, VersionedStore}
import keystate.errors.{ErrorCode, KeystateException}
import keystate.keygroup.KeyGroups

/** How an attempt at a task ended. */
sealed trait Outcome
object Outcome {

  /** It committed a version with this id. */
  final case class Committed(id: Option[String]) extends Outcome
  final case class Failed(cause: Throwable) extends Outcome
}

/** An attempt at a task. */
final class Attempt(val partition: Int, val executor: Executor) {
  var outcome: Option[Outcome] = None
  def isLost: Boolean = outcome.isEmpty && executor.process.isDead
}

/** A process that runs tasks of a query's run, and maintenance, over stores of its own. */
final class Executor(
    world: World,
    driver: Process,
    settings: QuerySettings,
    partitions: Int,
    number: Int
) {
  import world.{random, scheduler}

  val process = new Process(s"executor$number")

  private final class Holder(val store: VersionedStore) {
    var isTaken = false
    var merges = 0L
    var moves = 0L
    var isMaintained = false
    var isClosed = false
  }

  private val heap = new HeapShare
  private val holders = mutable.LinkedHashMap.empty[Int, Holder]
  private var isTold = false
  world.processes += process
  scheduler.spawn(process, "maintenance")(maintain())

  /** Runs a batch's task: from this version, with what it reads as its input. */
  def start(
      attempt: Attempt,
      number: Int,
      version: Long,
      id: Option[String],
      input: () => Long
  ): Unit =
    scheduler.spawn(process, s"task ${attempt.partition}.$number of version ${version + 1}") {
      attempt.outcome =
        try Some(Outcome.Committed(run(attempt.partition, version, id, input())))
        catch { case NonFatal(e) => Some(Outcome.Failed(e)) }
    }

  /** The run is over: stores are closed when no task has them. */
  def stop(): Unit = isTold = true

  private def stops = isTold || driver.isDead

  /** The partition is another executor's now: what this one has of it is closed, if it is free. */
  def unload(partition: Int): Unit = holders.get(partition).filterNot(_.isTaken).foreach { holder =>
    world.story.reach("a store is closed, for another executor has its partition")
    close(partition, holder)
  }

  private def close(partition: Int, holder: Holder): Unit = {
    holders -= partition
    holder.isClosed = true
    holder.store.close()
  }

  private def run(
      partition: Int,
      version: Long,
      id: Option[String],
      input: Long
  ): Option[String] = {
    val holder = holders.getOrElseUpdate(
      partition,
      new Holder(world.newStore(world.storage.view, settings, partitions, partition, heap))
    )
    if (!scheduler.await(!holder.isTaken, world.patience()) || holder.isClosed)
      throw new KeystateException(ErrorCode.StoreInUse, "the store is in use")
    holder.isTaken = true
    try {
      if (!world.has(Mutation.NotLoadedAgain) || !holder.store.isLoaded)
        holder.store.load(version, id)
      try work(holder.store, partition, input)
      catch {
        case NonFatal(e) =>
          holder.store.rollback()
          throw e
      }
      val newId = Option.when(settings.withIds)(world.newId())
      try { val _ = holder.store.commit(newId) }
      catch { case _: StorageFault if world.has(Mutation.SucceedsAnyway) => }
      world.story.tell(scheduler, s"committed version ${version + 1} of partition $partition")
      if (holder.store.compactions > holder.merges) {
        holder.merges = holder.store.compactions
        world.story.reach("runs are merged")
      }
      moveIfDue(holder)
      if (holder.store.isOnDisk) world.story.reach("stores are on disk")
      newId
    } finally holder.isTaken = false
  }

  /** As the provider does. */
  private def moveIfDue(holder: Holder): Unit = {
    try holder.store.moveIfDue()
    catch {
      case NonFatal(e) =>
        world.expected(e)
        world.story.reach("a store can't move")
    }
    if (holder.store.moves > holder.moves) {
      world.story.reach(s"a store moves to ${if (holder.store.isOnDisk) "RocksDB" else "the heap"}")
      holder.moves = holder.store.moves
    }
  }

  private def work(store: VersionedStore, partition: Int, input: Long): Unit = {
    val family = Map(
      "p" -> store.registerFamily("p", Layout.Point, Map("kind" -> "value")).id,
      "g" -> store.registerFamily("g", Layout.Grouped, Map("kind" -> "map")).id
    )
    val operator =
      store.registerFamily(OperatorState.FamilyName, Layout.Point, Map("kind" -> "operator")).id
    val all = store.manifest.partitioning.ownGroups
    val until = if (random.happens(settings.taskFails)) random.nextInt(all.size) else all.size
    all.take(until).foreach { group =>
      Model.change(input, group)(
        { case (name, _, key) =>
          Option(store.backend.get(family(name), group, world.entryKey(name, key)))
            .map(new String(_, "UTF-8"))
        },
        {
          case ((name, _, key), Some(value)) =>
            store.backend
              .put(family(name), group, world.entryKey(name, key), value.getBytes("UTF-8"))
          case ((name, _, key), None) =>
            store.backend.remove(family(name), group, world.entryKey(name, key))
        }
      )
    }
    if (until < all.size) {
      world.story.tell(scheduler, "throws", "a function throws")
      throw world.taskError("the function threw")
    }
    val group = KeyGroups.operatorGroup(world.maxParallelism)
    val before = Option(store.backend.get(operator, group, OperatorState.StateKey))
      .fold(Seq.empty[String])(OperatorState.fromJson(_).lists.flatMap(_.elements))
    val own = Option.when(input % partitions == partition)(Model.element(input))
    val list = OperatorList("l", union = false, before ++ own)
    store.backend.put(
      operator,
      group,
      OperatorState.StateKey,
      OperatorState.toJson(OperatorState(input, Seq(list)))
    )
  }

  private def maintain(): Unit = {
    while (!stops) {
      scheduler.await(stops, 1 + random.nextInt(settings.maintenanceMillis).toLong)
      holders.values.toSeq.filterNot(_.isClosed).foreach(maintain)
    }
    scheduler.await(holders.values.forall(!_.isTaken))
    holders.toSeq.foreach { case (partition, holder) => close(partition, holder) }
    process.isDead = true
  }

  private def maintain(holder: Holder): Unit = {
    scheduler.await(!holder.isMaintained)
    holder.isMaintained = true
    try {
      if (!holder.isTaken) {
        holder.isTaken = true
        try moveIfDue(holder)
        finally holder.isTaken = false
      }
      holder.store.maintain()
      world.story.reach("maintenance")
    } catch { case NonFatal(e) => world.expected(e) }
    finally holder.isMaintained = false
  }

  /** Maintains all stores, in the thread of whoever calls it. */
  def maintainNow(): Unit = holders.values.toSeq.foreach(maintain)
}
