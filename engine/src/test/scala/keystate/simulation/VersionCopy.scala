package keystate.simulation

import scala.annotation.tailrec
import scala.util.control.NonFatal

import keystate.files.StoreLocation

/** A process that reads the last committed version while drivers run. */
abstract class VersionCopy(world: World, name: String) {
  import world.{random, scheduler, storage}

  protected val process = new Process(name)
  protected val logs = new QueryLogs(storage.view)

  /** Reads the version after a batch. */
  protected def copy(batch: Long): Unit

  /** Is told why it failed, as things may fail. */
  protected def failed(version: Long, cause: Throwable): Unit = ()

  def start(): Unit = {
    world.processes += process
    scheduler.spawn(process, name) {
      scheduler.sleep(random.nextInt(300).toLong * world.longestTick)
      var version = 0L
      try
        logs.latestCommit.foreach { batch =>
          version = batch + 1
          copy(batch)
        }
      catch {
        case NonFatal(e) =>
          world.expected(e)
          failed(version, e)
      }
    }
  }

  /** How many partitions the version has, and their ids. A rescale may change the entries of a batch
    * meanwhile.
    */
  @tailrec protected final def committed(batch: Long): (Int, Seq[Option[String]]) = {
    val before = logs.commit(batch)
    val partitions = logs.partitions(batch)
    val ids = logs.ids(batch, partitions)
    if (logs.commit(batch) == before && ids.size == partitions) (partitions, ids)
    else committed(batch)
  }

  protected def at(partition: Int): StoreLocation =
    StoreLocation(0, partition, StoreLocation.DefaultStore)
}
