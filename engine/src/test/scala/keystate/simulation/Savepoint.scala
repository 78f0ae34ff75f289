package keystate.simulation

import keystate.checkpoint.StoreReader
import keystate.errors.{ErrorCode, KeystateException}
import keystate.version.PinnedVersions.Pin

/** A process that copies the last committed version while drivers run, as a savepoint does: it pins
  * the version in all partitions, then reads all of its files. Of logs that change meanwhile it
  * makes another copy.
  */
final class Savepoint(world: World) extends VersionCopy(world, "savepoint") {
  import world.{random, scheduler, storage, story}

  override protected def failed(version: Long, cause: Throwable): Unit =
    if (isGone(cause) && world.mustBeReadable(version))
      throw new Violation(s"version $version can't be copied, though it is retained: $cause", cause)

  override protected def copy(batch: Long): Unit = {
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

  private def isGone(error: Throwable) = error match {
    case e: KeystateException =>
      Set(ErrorCode.MissingVersion, ErrorCode.MissingFile)(e.errorCode)
    case _ => false
  }
}
