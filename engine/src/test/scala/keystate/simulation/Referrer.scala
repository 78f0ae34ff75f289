package keystate.simulation

import scala.util.Random
import scala.util.control.NonFatal

import keystate.checkpoint.StoreReader
import keystate.files.StoreLocation
import keystate.version.{References, SharedPath}

/** A process that makes a savepoint by reference of the last committed version while drivers run: it
  * refers to the run files in all partitions, looks whether that holds, and perhaps lets go of them
  * later. It may die at any request.
  *
  * @param random
  *   of its own, so that runs without it stay what they were
  */
final class Referrer(world: World, checks: Checks, random: Random) {
  import world.{scheduler, storage, story}

  private val process = new Process("referrer")
  private val logs = new QueryLogs(storage.view)
  private val id = s"ref${random.nextInt(1000000)}"

  def start(): Unit = {
    world.processes += process
    scheduler.spawn(process, "referrer") {
      pause(300)
      try
        logs.latestCommit.foreach { batch =>
          refer(batch)
          pause(3000)
          if (random.nextBoolean()) letGo(batch + 1)
        }
      catch { case NonFatal(e) => world.expected(e) }
    }
  }

  private def refer(batch: Long): Unit = {
    val version = batch + 1
    val before = logs.commit(batch)
    val partitions = logs.partitions(batch)
    val files =
      logs.ids(batch, partitions).take(partitions).zipWithIndex.map { case (versionId, partition) =>
        val listed = world.withLocalFolder { local =>
          val reader = new StoreReader(at(partition), storage.view, local)
          StoreReader.files(reader.manifest(version, versionId, partitions))
        }
        pause(20)
        References.write(storage.view, at(partition), version, id, listed)
        pause(20)
        listed
      }
    val holds = world.has(Mutation.TrustsReferences) ||
      (0 until partitions).forall(p => References.isSafe(storage.view, at(p), version))
    if (holds && files.size == partitions && logs.commit(batch) == before) {
      story.tell(scheduler, s"$id refers to version $version", "files are referred to")
      checks.refer(id, files.flatten.filterNot(SharedPath.isShared).toSet)
    } else {
      story.reach("a reference comes too late")
      letGo(version)
    }
  }

  private def letGo(version: Long): Unit = {
    if (checks.letGo(id)) story.reach("a reference is given up")
    storage.paths
      .filter(path => References.parse(path.split('/').last).contains((version, id)))
      .foreach(storage.view.delete)
  }

  private def pause(most: Int): Unit =
    scheduler.sleep(random.nextInt(most).toLong * world.longestTick)

  private def at(partition: Int) = StoreLocation(0, partition, StoreLocation.DefaultStore)
}
