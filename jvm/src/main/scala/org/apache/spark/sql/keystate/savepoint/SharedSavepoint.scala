package org.apache.spark.sql.keystate.savepoint

import java.util.UUID

import scala.annotation.tailrec
import scala.util.Using
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import keystate.errors.KeystateErrors
import keystate.files.{Concurrently, StoreLocation}
import keystate.version.{FileSource, Manifest, References, SharedPath}
import org.apache.spark.sql.keystate.checkpoint.{CommittedBatch, QueryCheckpoint}
import org.apache.spark.sql.keystate.files.{CheckpointBases, CheckpointOwner}

/** A savepoint that has its own logs and version files, and lists the run files of the checkpoint
  * that it is made from. These files never change. They stay while there is a reference to them
  * ([[References]]).
  *
  * Its steps, after each of which the process may die:
  *   1. Write references, one for each store. Until step 4 they count for nobody.
  *   1. Check that every clean-up keeps the files ([[References.isSafe]]), and that
  *      the checkpoint is not being deleted. If the query was too quick, try again with a newer
  *      version.
  *   1. Write the savepoint in its place, first the file that marks it as unfinished.
  *   1. Write into the checkpoint's record of savepoints that it is made ([[SavepointRecords]]). If
  *      the record says that it was abandoned, give up.
  *   1. Delete the file that marks it as unfinished. From now on the savepoint can be read.
  *
  * So every readable savepoint has references that count. A process that died before step 4 leaves
  * references without a record, which [[StoredReferences.sweep]] finds, and a folder that nobody
  * reads. After step 4 only [[CheckpointDeletion]] of the savepoint releases the files.
  *
  * @param fork
  *   the [[Fork]] that it belongs to
  */
private[keystate] final class SharedSavepoint(
    source: QueryCheckpoint,
    version: Option[Long],
    target: Path,
    conf: Configuration,
    fork: Option[CopyIdentity] = None
) {
  import SharedSavepoint._

  private val id = UUID.randomUUID.toString
  private val references = new StoredReferences(source.root, conf)
  private val records = new SavepointRecords(source.root, conf)

  private def newDraft(beforeSeen: () => Unit) = new CheckpointDraft(
    source,
    target,
    conf,
    KeystateErrors.savepointExists,
    alwaysInPlace = true,
    beforeSeen = beforeSeen,
    fork = fork
  )

  /** Returns the micro-batch that it holds. */
  def write(): Long = {
    newDraft(() => ()).checkFree()
    references.sweep()
    records.telling(target, SavepointRecords.References)(write(Attempts))
  }

  @tailrec private def write(attempts: Int): Long = {
    def newest(at: QueryCheckpoint) = at.batch(version.fold(at.lastBatch)(_ - 1))
    val batch = if (attempts == Attempts) newest(source) else reopened(newest)
    val done =
      try {
        val versions = manifests(batch)
        refer(batch, versions)
        val holds = isSafe(batch, versions)
        if (holds) finish(batch, versions)
        holds
      } catch {
        case e: Exception if !maySee && version.isEmpty && Savepoint.isGone(e) => false
        case _: WentOn => false
        case e: Throwable =>
          // Once it may be visible, it keeps its references in any case.
          if (!maySee)
            try references.forget(id)
            catch { case NonFatal(suppressed) => e.addSuppressed(suppressed) }
          throw e
      }
    if (done) batch.number
    else {
      references.forget(id)
      if (attempts == 1 || version.isDefined)
        throw KeystateErrors.cannotShare(source.location, batch.version)
      write(attempts - 1)
    }
  }

  private var maySee = false

  private def manifests(batch: CommittedBatch): Seq[(StoreLocation, Manifest)] =
    Concurrently.map(for {
      operator <- source.operators
      store <- source.stores(operator)
      partition <- 0 until source.partitions(batch, operator)
    } yield StoreLocation(operator, partition, store)) { location =>
      import location._
      location -> source.manifest(batch, operator, partition, store)
    }

  private def refer(batch: CommittedBatch, versions: Seq[(StoreLocation, Manifest)]): Unit = {
    Concurrently.map(versions) { case (at, manifest) =>
      References.write(storage(at), at, batch.version, id, pathsOf(manifest).filterNot(isShared))
    }
    ()
  }

  /** Whether the references hold. Call it once they are written. */
  private def isSafe(batch: CommittedBatch, versions: Seq[(StoreLocation, Manifest)]): Boolean = {
    CheckpointOwner.checkFinished(source.root, source.files) // it may be being deleted
    val bases = usedBases(versions)
    (bases.isEmpty || bases.subsetOf(CheckpointBases.all(source.root, conf).keySet)) &&
    Concurrently
      .map(versions.map(_._1))(at => References.isSafe(storage(at), at, batch.version))
      .forall(identity)
  }

  private def finish(batch: CommittedBatch, versions: Seq[(StoreLocation, Manifest)]): Unit = {
    val runs = versions.flatMap(_._2.runs).filter(_.source.isInstanceOf[FileSource])
    val record = SavepointRecords.Record(
      SavepointRecords.Made,
      s"$target",
      SavepointRecords.References,
      batch.number,
      System.currentTimeMillis,
      runs.distinctBy(_.source).map(_.bytes).sum
    )
    def tell(): Unit = {
      if (!records.make(id, record))
        throw KeystateErrors.cannotShare(source.location, batch.version)
      maySee = true
    }
    val draft = newDraft(() => tell())
    draft.write {
      draft.copyLogs(batch)
      draft.copyRequests(batch.number)
      // A rescale may have replaced the batch's entries, after its versions were read.
      if (reopened(_.batch(batch.number)) != batch) throw new WentOn
      writeState(draft, versions)
      draft.copyMetadata()
    }
  }

  private def writeState(draft: CheckpointDraft, versions: Seq[(StoreLocation, Manifest)]): Unit = {
    val known = CheckpointBases.all(source.root, conf)
    usedBases(versions).foreach { base =>
      CheckpointBases.write(target, base, known(base).copy(reference = None), conf)
    }
    CheckpointBases.write(target, id, CheckpointBases.Base(source.location, Some(id)), conf)
    Concurrently.map(versions) { case (at, manifest) =>
      draft.writeVersion(at.operator, at, manifest) { path =>
        if (isShared(path)) path else SharedPath(id, at.operator, path).toString
      }
    }
    ()
  }

  private def storage(at: StoreLocation) = source.storage(source.operatorFolder(at.operator))

  private def reopened[T](read: QueryCheckpoint => T): T =
    Using.resource(new QueryCheckpoint(conf, source.location))(read)
}

private object SharedSavepoint {

  /** The logs were changed meanwhile. */
  private final class WentOn extends RuntimeException

  /** How many versions are tried, when the query is too quick for each. */
  private final val Attempts = 20

  private def isShared(path: String) = SharedPath.isShared(path)

  private def pathsOf(manifest: Manifest): Seq[String] =
    manifest.runs.map(_.source).collect { case FileSource(path) => path }.distinct

  private def usedBases(versions: Seq[(StoreLocation, Manifest)]): Set[String] =
    versions.flatMap(of => pathsOf(of._2)).flatMap(SharedPath.parse).map(_.base).toSet
}
