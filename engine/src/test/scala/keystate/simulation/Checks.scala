package keystate.simulation

import java.util.IdentityHashMap

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.Using

import keystate.checkpoint.{OperatorState, StoreReader}
import keystate.errors.KeystateException
import keystate.files.StoreLocation
import keystate.keygroup.KeyGroups
import keystate.version.{References, VersionFile, VersionFinder}

/** What must hold, looked at without a request of an actor. */
final class Checks(world: World) {
  import world.{model, storage}

  private val logs = new QueryLogs(storage.snapshot)

  /** How many of the newest committed versions have to be readable. */
  var retained = Int.MaxValue

  private def retainedVersions: Seq[Long] =
    Math.max(1, model.newest - retained + 1) to model.newest

  def isRetained(version: Long): Boolean = retainedVersions.contains(version)

  /** A log's entry has appeared. */
  def written(path: String): Unit = path match {
    case s"commits/$batch" =>
      val version = batch.toLong + 1
      if (version > model.newest) {
        val input = logs.offsets(batch.toLong).get.input
        if (world.usesSource && Source.batchOf(input) != batch.toLong)
          throw new Violation(s"batch $batch reads what the source made for another: $input")
        model.commit(version, input)
        readsBack(version)
      } else if (version == model.newest) readsBack(version) // rescaled
    case s"offsets/$batch" =>
      val input = logs.offsets(batch.toLong).get.input
      if (planned.getOrElseUpdate(batch.toLong, input) != input)
        throw new Violation(s"batch $batch is to read another input than was logged")
    case _ =>
  }

  /** What batches were to read when it was first logged. */
  private val planned = mutable.HashMap.empty[Long, Long]

  /** What savepoints by reference need, by their ids. */
  private val referred = mutable.HashMap.empty[String, Set[String]]

  /** From now on nobody deletes these files. */
  def refer(id: String, files: Set[String]): Unit = {
    files.find(storage.get(_).isEmpty).foreach { path =>
      throw new Violation(s"$path is gone, which $id refers to")
    }
    referred(id) = files
  }

  def letGoOfAll(): Unit = referred.clear()

  /** Whether the savepoint was there. */
  def letGo(id: String): Boolean = referred.remove(id).isDefined

  /** References of which nothing came, or whose savepoint is gone. */
  def isForgotten(path: String): Boolean =
    References.parse(path.split('/').last).exists { case (_, id) => !referred.contains(id) }

  /** Nobody deletes what a retained version needs, or a savepoint by reference. */
  def deleted(path: String): Unit = {
    referred.find(_._2(path)).foreach { case (id, _) =>
      throw new Violation(s"$path is deleted, which $id refers to")
    }
    if (Source.isSegment(path))
      logs.latestOffsets
        .filter(logs.offsets(_).get.segment.exists(s => path.endsWith(s.file)))
        .foreach { batch =>
          throw new Violation(s"$path is deleted, which batch $batch reads")
        }
    if (path.endsWith(".keystate") || isRun(path))
      retainedVersions.find(needed(_).contains(path)).foreach { version =>
        throw new Violation(s"$path is deleted, which version $version needs")
      }
  }

  private def isRun(path: String) = path.endsWith(".lz4") || path.endsWith(".sst")

  /** All files of a committed version. */
  private def needed(version: Long): Set[String] = {
    val partitions = logs.partitions(version - 1)
    logs
      .ids(version - 1, partitions)
      .zipWithIndex
      .flatMap { case (id, partition) =>
        val at = StoreLocation(0, partition, StoreLocation.DefaultStore)
        val file = VersionFinder.file(storage.snapshot, at, version, id, Some(partitions))
        listed.getOrElseUpdate(
          storage.get(file).get,
          StoreReader.files(VersionFinder.read(storage.snapshot, at, version, id, Some(partitions)))
        ) :+ file
      }
      .toSet
  }

  /** The files that version files list, by the array that holds the version file's content. */
  private val listed = new IdentityHashMap[Array[Byte], Seq[String]].asScala

  /** The newest version that a driver was told of as committed. */
  private var acknowledged = 0L

  /** How many batches a driver committed after another one had come. */
  private val late = mutable.HashMap.empty[Driver, Int].withDefaultValue(0)

  /** A driver knows that its batch is committed. One that another has come after may commit the
    * batch that it is in, and no more.
    */
  def acknowledge(driver: Driver, batch: Long): Unit = {
    acknowledged = Math.max(acknowledged, batch + 1)
    if (storage.get(s"owners/${driver.owner + 1}").isDefined) {
      late(driver) += 1
      if (late(driver) > 1) throw new Violation(s"${driver.name} goes on, though another has come")
    }
  }

  /** What was committed is there, but for what nobody was told of yet. */
  def powerLost(): Unit = {
    val newest = logs.latestCommit.fold(0L)(_ + 1)
    if (newest < acknowledged)
      throw new Violation(s"version $acknowledged is lost, $newest is the newest")
    model.forgetAfter(newest)
    planned.filterInPlace((batch, _) => logs.offsets(batch).isDefined)
    retainedReadBack()
  }

  def retainedReadBack(): Unit = retainedVersions.foreach(readsBack)

  /** A committed version has what was committed, in all of its partitions. */
  def readsBack(version: Long): Unit = try {
    val partitions = logs.partitions(version - 1)
    val content = mutable.HashMap.empty[Model.Place, String]
    val elements = mutable.ArrayBuffer.empty[String]
    val expected = model.content(version)
    val operatorGroup = KeyGroups.operatorGroup(world.maxParallelism)
    val broadcast = expected.filter(_._1._2 == operatorGroup)
    logs.ids(version - 1, partitions).zipWithIndex.foreach { case (id, partition) =>
      Using.resource(world.newStore(storage.snapshot, World.OfReader, partitions, partition)) {
        store =>
          store.load(version, id)
          val (subtask, keyed) = world.content(store).partition(_._1._2 == operatorGroup)
          same(version, s"broadcast state of partition $partition", broadcast, subtask)
          content ++= keyed
          store.family(OperatorState.FamilyName).foreach { family =>
            Option(store.backend.get(family.id, operatorGroup, OperatorState.StateKey))
              .foreach(elements ++= OperatorState.fromJson(_).lists.flatMap(_.elements))
          }
      }
    }
    same(version, "keyed state", expected -- broadcast.keys, content)
    if (elements.sorted != model.elements(version))
      throw new Violation(
        s"version $version has list elements ${elements.sorted}, not ${model.elements(version)}"
      )
  } catch {
    case e: KeystateException => throw new Violation(s"version $version is not readable: $e", e)
  }

  private def same(
      version: Long,
      what: String,
      expected: collection.Map[Model.Place, String],
      found: collection.Map[Model.Place, String]
  ): Unit = if (expected != found) {
    val wrong = (expected.keySet ++ found.keySet).filter(k => expected.get(k) != found.get(k))
    val shown = wrong.take(3).map(k => s"$k: ${found.get(k)} instead of ${expected.get(k)}")
    throw new Violation(s"$what of version $version differs: ${shown.mkString("; ")}")
  }

  /** The files of the state that no version needs which is kept, and that are not new. After enough
    * batches in peace there are none.
    */
  def left(kept: Int): Seq[String] = {
    val versions = storage.paths.flatMap { path =>
      val parts = path.split('/')
      for {
        partition <- parts(0).toIntOption
        (version, id) <- VersionFile.parse(parts.last)
      } yield (path, partition, version, id)
    }
    val oldest = model.newest - kept
    val needed = versions
      .collect {
        case (path, partition, version, id) if version >= oldest =>
          val at = StoreLocation(0, partition, StoreLocation.DefaultStore)
          path +: StoreReader.files(VersionFile.read(storage.snapshot, at, version, id))
      }
      .flatten
      .toSet
    val named = Seq(logs.latestOffsets, logs.latestOffsets.map(_ - 1)).flatten
      .flatMap(logs.offsets(_).flatMap(_.segment))
    val segments = storage.paths.filter(Source.isSegment).filterNot { path =>
      named.exists(name => path.endsWith(name.file))
    }
    val inState = storage.paths.filter(path => path.head.isDigit)
    segments ++ inState.filterNot(needed).filterNot { path =>
      referred.values.exists(_(path)) || References.parse(path.split('/').last).isDefined ||
      isRun(path) && path.split('/').last.takeWhile(_.isDigit).toLong >= oldest
    }
  }
}
