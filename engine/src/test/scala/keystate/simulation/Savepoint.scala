package keystate.simulation

import scala.annotation.tailrec
import scala.util.control.NonFatal

import keystate.checkpoint.StoreReader
import keystate.errors.{ErrorCode, KeystateException}
import keystate.files.StoreLocation
import keystate.version.PinnedVersions.Pin

/** A process that copies the last committed version while drivers run, as a savepoint does: it pins
  * the version in all partitions, then reads all of its files. Of logs that change meanwhile it
  * makes another copy.
  */
final class Savepoint(world: World) {
  import world.{random, scheduler, storage, story}

  private val process = new Process("savepoint")
  private val logs = new QueryLogs(storage.view)

  def start(): Unit = {
    world.processes += process
    scheduler.spawn(process, "savepoint") {
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
          if (isGone(e) && world.mustBeReadable(version))
            throw new Violation(s"version $version can't be copied, though it is retained: $e", e)
      }
    }
  }

  private def copy(batch: Long): Unit = {
    val version = batch + 1
    val (partitions, ids) = committed(batch)
    val pins = (0 until partitions).map { partition =>
      new Pin(storage.view, at(partition), version, () => scheduler.now * 1000000)
    }
    try {
      story.tell(scheduler, s"pinned version $version")
      scheduler.sleep(random.nextInt(300).toLong * world.longestTick)
      ids.zipWithIndex.foreach { case (id, partition) =>
        pins.foreach(_.renew())
        world.withLocalFolder { local =>
          val reader = new StoreReader(at(partition), storage.view, local)
          reader.check(reader.manifest(version, id, partitions))
        }
      }
      val isNewest = logs.latestCommit.contains(batch)
      story.reach(s"a copy of ${if (isNewest) "the newest" else "an older"} version")
    } finally pins.foreach(_.close())
  }

  /** A rescale may change the entries of a batch meanwhile. */
  @tailrec private def committed(batch: Long): (Int, Seq[Option[String]]) = {
    val before = logs.commit(batch)
    val partitions = logs.partitions(batch)
    val ids = logs.ids(batch, partitions)
    if (logs.commit(batch) == before && ids.size == partitions) (partitions, ids)
    else committed(batch)
  }

  private def isGone(error: Throwable) = error match {
    case e: KeystateException =>
      Set(ErrorCode.MissingVersion, ErrorCode.MissingFile)(e.errorCode)
    case _ => false
  }

  private def at(partition: Int) = StoreLocation(0, partition, StoreLocation.DefaultStore)
}
