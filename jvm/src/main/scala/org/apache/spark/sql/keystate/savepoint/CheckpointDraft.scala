package org.apache.spark.sql.keystate.savepoint

import java.io.{FileNotFoundException, IOException}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, NoSuchFileException, Paths}
import java.util.UUID

import scala.annotation.tailrec
import scala.util.Using
import scala.util.control.NonFatal
import scala.util.matching.Regex

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileAlreadyExistsException, FileUtil, Path}
import org.json4s._
import org.json4s.jackson.JsonMethods.{compact, parse, render}

import org.apache.spark.sql.classic.SparkSession

import keystate.errors.{KeystateErrors, KeystateException, MissingRunException}
import keystate.files.{Concurrently, StoreLocation}
import keystate.version.{FileSource, InlineSource, Manifest, SharedPath, VersionCopy}
import org.apache.spark.sql.keystate.checkpoint.{CommittedBatch, NamedSegments, QueryCheckpoint}
import org.apache.spark.sql.keystate.files.{
  CheckpointFiles, CheckpointOwner, CommitNotes, OffsetEntry, OwnerFiles, QueryLogs,
  SparkCheckpointStorage, SparkFiles
}
import org.apache.spark.sql.keystate.forget.{CarriedRequests, ForgetFiles}
import org.apache.spark.sql.keystate.metadata.{CheckpointOperators, SparkStoreMetadata}
import org.apache.spark.sql.keystate.shim.LogEntries

/** A new checkpoint that is made from another one. It is written to a folder next to its final
  * place, and that folder is then renamed. So it appears whole, if the file system renames a folder
  * in one step.
  *
  * An object store can't rename a folder, so there it is written in its final place. The file
  * `_keystate/unfinished` is written first and deleted last. While it exists no query starts on the
  * checkpoint, and nothing else reads it.
  *
  * @param place
  *   its final place, or a link to that
  * @param exists
  *   makes the error for a place that is not free
  * @param links
  *   whether run files are hard links and not copies
  * @param alwaysInPlace
  *   whether it is written as in an object store, wherever it is
  * @param beforeSeen
  *   runs when everything is written in its place, and nobody can read it yet
  * @param fork
  *   the [[Fork]] that it belongs to; else it has the query id of the source
  */
private[keystate] final class CheckpointDraft(
    source: QueryCheckpoint,
    place: Path,
    conf: Configuration,
    exists: String => KeystateException,
    links: Boolean = false,
    alwaysInPlace: Boolean = false,
    beforeSeen: () => Unit = () => (),
    fork: Option[CopyIdentity] = None
) {
  import CheckpointDraft._

  private implicit val formats: Formats = DefaultFormats

  /** A link stays as it is. */
  private val target = CheckpointFiles.behindLink(place, conf)
  private val fs = target.getFileSystem(conf)

  private val inPlace = alwaysInPlace || CheckpointFiles.isObjectStore(target, conf)

  /** Whether a file appears in its place without a rename, which would take a request or a process.
    */
  private val isDirect =
    CheckpointFiles.isObjectStore(target, conf) || CheckpointFiles.isPlainLocal(target, conf)

  val root: Path =
    if (inPlace) target
    else CheckpointDraft.beside(target, s"${UUID.randomUUID}")

  /** Throws if there is something in its place. */
  def checkFree(): Unit = {
    if (!isFree) throw exists(target.toString)
    if (CheckpointFiles.isBelow(target, source.root, conf))
      throw KeystateErrors.insideCheckpoint(s"$place", source.location)
  }

  private def isFree: Boolean = !fs.exists(target) || fs.listStatus(target).isEmpty

  /** Writes everything. If anything fails, nothing is left behind. */
  def write(body: => Unit): Unit = {
    checkFree()
    // The first file: without it Spark reports incomplete logs before a query can find out that
    // this was interrupted.
    def all(): Unit = {
      fork.fold(copyNeeded("metadata")) { identity =>
        identity.successor match {
          case Some(successor) => put(OwnerFiles.SuccessorFile, compact(OwnerFiles.json(successor)))
          case None => put(CopyIdentity.ForkMark, "")
        }
        put("metadata", compact(render(JObject("id" -> JString(identity.query)))))
      }
      body
    }
    source.lostMetadata.headOption.foreach(throw _)
    if (inPlace) writeInPlace(all()) else writeAndRename(all())
  }

  private def writeInPlace(body: => Unit): Unit = {
    val mark = CheckpointOwner.unfinished(target)
    val files = CheckpointFiles.create(target, conf)
    files.mkdirs(mark.getParent)
    try CheckpointFiles.write(files, mark, overwriteIfPossible = false)(_ => ())
    catch { case _: FileAlreadyExistsException => throw exists(target.toString) }
    try {
      body
      new CheckpointOperators(conf, root).writeFound()
      if (!files.exists(mark)) throw KeystateErrors.unfinished(s"$target") // it was deleted
      beforeSeen()
    } catch {
      case e: Throwable =>
        try fs.delete(target, true)
        catch { case NonFatal(suppressed) => e.addSuppressed(suppressed) }
        throw e
    }
    files.delete(mark)
  }

  private def writeAndRename(body: => Unit): Unit =
    try {
      body
      new CheckpointOperators(conf, root).writeFound()
      // Somebody may have made another checkpoint there meanwhile, which stays.
      checkFree()
      try fs.delete(target, false)
      catch { case _: IOException if !isFree => throw exists(target.toString) }
      if (!fs.rename(root, target)) throw exists(target.toString)
      // Hadoop moves it into a folder that has come just now.
      if (fs.delete(CheckpointDraft.below(target, root.getName), true))
        throw exists(target.toString)
    } finally deleteForGood()

  /** Tasks of a job that failed may write on for a moment, and make the folder again. */
  @tailrec private def deleteForGood(attempts: Int = 50): Unit = {
    val wasThere = fs.delete(root, true)
    if (wasThere && attempts > 1) {
      Thread.sleep(100)
      deleteForGood(attempts - 1)
    }
  }

  private def copyNeeded(name: String): Unit = if (!copyFile(name))
    throw KeystateErrors.fileGone(s"${checked(name)}", source.location)

  /** Copies those of the named files that exist; a running query may be deleting them. */
  def copy(names: Seq[String]): Unit =
    copyAndTell(names): Unit

  /** Returns the names of missing files. */
  private def copyAndTell(names: Seq[String]): Seq[String] =
    Concurrently.map(names.distinct)(name => name -> copyFile(name)).collect { case (name, false) =>
      name
    }

  /** Returns whether the file exists. */
  private def copyFile(name: String): Boolean =
    try {
      copy(checked(name), name)
      true
    } catch {
      // The same exceptions stand for a file that can't be opened, and for a target that can't be
      // made.
      case _: FileNotFoundException | _: NoSuchFileException
          if !source.files.exists(checked(name)) =>
        false
    }

  /** Hadoop would start a process for each local file, and ask an object store before each one. */
  private def copy(from: Path, name: String): Unit = {
    val to = new Path(root, name)
    if (isDirect)
      Using.resource(CheckpointFiles.create(from.getParent, conf).open(from)) { in =>
        val files = CheckpointFiles.create(to.getParent, conf)
        files.mkdirs(to.getParent)
        CheckpointFiles.write(files, to, overwriteIfPossible = true) { out =>
          in.transferTo(out): Unit
        }
      }
    else
      FileUtil.copy(from.getFileSystem(conf), from, fs, to, false, conf): Unit
  }

  /** Copies what describes the state, but not the state: records, metadata and schemas. */
  def copyMetadata(): Unit =
    source.operators.foreach(operator => describe(source, operator, operator))

  /** Copies what describes one operator of a checkpoint, for the operator of the number `as`. */
  def describe(from: QueryCheckpoint, operator: Long, as: Long): Unit = {
    val described = below(from, s"state/$operator")
      .filter(_.split('/').dropRight(1).exists(_.startsWith("_")))
    Concurrently.map(described) { name =>
      val file = new Path(from.root, name)
      val to = s"state/$as/${name.stripPrefix(s"state/$operator/")}"
      // Spark's operator metadata: version 2 has a file for each micro-batch, version 1 has one.
      val isVersion2 = name.contains("/_metadata/v2/")
      val tellsPaths =
        if (isVersion2) file.getName.toLongOption.isDefined
        else file.getName == "metadata" && file.getParent.getName == "_metadata"
      if (tellsPaths) put(to, moved(from, file, operator, as))
      else if (!isVersion2) copy(file, to)
    }
    ()
  }

  /** Copies the files with the state of operators after a micro-batch. Throws if one is missing.
    * Files that the source shares with another checkpoint become the copy's own.
    *
    * @param operators
    *   each with its number in the copy
    * @param between
    *   called before each file
    * @return
    *   the total bytes of the run files
    */
  def copyState(
      batch: CommittedBatch,
      operators: Seq[(Long, Long)],
      between: () => Unit = () => ()
  ): Long = {
    val files = for {
      (operator, as) <- operators
      storage = source.storage(source.operatorFolder(operator))
      store <- source.stores(operator)
      partition <- 0 until source.partitions(batch, operator)
      location = StoreLocation(operator, partition, store)
      (path, bytes) <- copyVersion(batch, location, as)
    } yield Copied(storage, path, s"state/$as/${ownPath(path)}", bytes, location)
    val distinct = files.distinctBy(_.to)
    Concurrently.foreach(distinct) { file =>
      between()
      try if (links) link(file) else copy(checked(file.from), file.to)
      catch {
        case e @ (_: FileNotFoundException | _: NoSuchFileException)
            if !source.files.exists(file.from) =>
          throw new MissingRunException(file.location, batch.version, file.path, e)
      }
    }(_ => ())(_ => ())
    distinct.map(_.bytes).sum
  }

  private def link(file: Copied): Unit = {
    val to = Paths.get(new Path(root, file.to).toUri.getPath)
    Files.createDirectories(to.getParent)
    Files.createLink(to, Paths.get(checked(file.from).toUri.getPath)): Unit
  }

  private def ownPath(path: String): String = SharedPath.parse(path).fold(path)(_.path)

  /** Writes a version's file, and returns the run files that it lists, each with its bytes. It is
    * written as it was read, and not copied: with checkpoint format v1 a late attempt may replace it.
    */
  private def copyVersion(
      batch: CommittedBatch,
      location: StoreLocation,
      as: Long
  ): Seq[(String, Long)] = {
    val StoreLocation(operator, partition, store) = location
    val manifest = source.manifest(batch, operator, partition, store)
    writeVersion(as, location, manifest)(ownPath)
    manifest.runs.flatMap { run =>
      run.source match {
        case FileSource(path) => Some(path -> run.bytes)
        case _: InlineSource => None
      }
    }
  }

  /** Writes a version's file, with other paths of its run files. */
  def writeVersion(as: Long, location: StoreLocation, manifest: Manifest)(
      pathOf: String => String
  ): Unit = {
    val storage = source.storage(new Path(root, s"state/$as"))
    VersionCopy.write(storage, location, manifest)(pathOf)
  }

  /** Copies the logs as they are after a micro-batch, the entry of the next one if that was
    * started, and the files of sources. Later entries are left out. Spark also reads the entry
    * before the last one. Throws if a file is gone that a stateful source continues from.
    */
  def copyLogs(batch: CommittedBatch): Unit = {
    // Sources write their files before the entry, so the entry is copied after them. A running
    // query deletes the files soon, so they come first.
    val newest = copyBegun(batch).orElse(QueryLogs.offsets(conf, source.root).get(batch.number))
    val named = newest.toSeq.flatMap(NamedSegments.of)
    copyAndTell(named).headOption.foreach { file =>
      throw KeystateErrors.sourceFileGone(batch.number, s"${new Path(source.root, file)}")
    }
    val logs = Seq("offsets", "commits").flatMap { log =>
      Seq(batch.number - 1, batch.number).map(number => s"$log/$number")
    }
    copy(logs ++ below("sources").diff(named))
    // After the entry that names them. A fork publishes nothing of its original's.
    if (fork.forall(_.successor.nonEmpty)) copy(below(CommitNotes.StagedFolder))
    // Spark deletes old entries while a query runs.
    val before = Option.when(batch.number > 0)(s"offsets/${batch.number - 1}")
    val needed = before ++ Seq(s"offsets/${batch.number}", s"commits/${batch.number}")
    if (!Concurrently.map(needed.toSeq)(log => fs.exists(new Path(root, log))).forall(identity))
      throw KeystateErrors.noBatch(batch.number, source.location)
  }

  /** Copies the commit of a micro-batch, with other ids of the version files that it names. With
    * checkpoint format v1 it names none.
    */
  def copyCommit(session: SparkSession, batch: Long)(
      ids: Map[Long, Array[Array[String]]] => Map[Long, Array[Array[String]]]
  ): Unit = {
    val commits = QueryLogs.commits(conf, source.root)
    val commit = commits.get(batch).get
    val changed = LogEntries.withIds(commit, commit.stateUniqueIds.map(ids))
    QueryLogs.commits(conf, root).replace(session, batch, changed, from = commits)
  }

  /** Copies the next micro-batch's entry: a sink may already have that batch's rows, by its number.
    * So the copy runs the batch again with the same input. The number of partitions is that of the
    * copy, because the batch may have been started after a rescale. Returns its entry.
    */
  private def copyBegun(batch: CommittedBatch): Option[LogEntries.Offsets] = {
    val next = batch.number + 1
    val begun = QueryLogs.offsets(conf, source.root).get(next)
    begun match {
      case Some(entry) =>
        QueryLogs
          .offsets(conf, root)
          .replace(next, OffsetEntry.withPartitions(entry, batch.partitions))
      case None =>
        val _ = fs.delete(new Path(root, s"offsets/$next"), false) // of a try before
    }
    begun
  }

  /** Copies the requests to forget keys, if the copy is for a query that goes on. Call it once the
    * logs are copied.
    *
    * @param last
    *   the last committed micro-batch
    * @param operators
    *   the operators with unchanged keys, and their numbers in the copy
    */
  def copyRequests(last: Long, operators: Long => Option[Long] = Some(_)): Unit =
    if (fork.forall(_.successor.nonEmpty)) {
      val carried = new CarriedRequests(new ForgetFiles(source.root, conf), last, operators)
      carried.checkNoneLost(source.location)
      val isBegun = fs.exists(new Path(root, s"offsets/${last + 1}"))
      carried.write(new ForgetFiles(root, conf), if (isBegun) last + 1 else last)
    }

  /** All files below a folder, relative to the checkpoint. */
  def below(folder: String): Seq[String] = below(source, folder)

  private def below(from: QueryCheckpoint, folder: String): Seq[String] =
    from.filesBelow(new Path(from.root, folder)).map { status =>
      from.root.toUri.relativize(status.getPath.toUri).getPath
    }

  /** A file of Spark's operator metadata with the operator's number and paths in the copy. Its second
    * line names the state schema files by paths that contain the checkpoint's place.
    */
  private def moved(from: QueryCheckpoint, file: Path, operator: Long, as: Long): String = {
    val state = new Path(target, "state")
    SparkFiles.reading(file) {
      val text = Using.resource(from.files.open(file)) { in =>
        new String(in.readAllBytes(), UTF_8)
      }
      val (version, metadata) = text.splitAt(text.indexOf('\n') + 1)
      val placed = parse(metadata).transformField {
        case JField("stateSchemaFilePaths", JArray(files)) =>
          val here = files.map { schema =>
            val path = schema.extract[String]
            JString(SparkStoreMetadata.schemaFile(path, operator, state, as).toString)
          }
          JField("stateSchemaFilePaths", JArray(here))
        case JField("operatorId", JInt(_)) => JField("operatorId", JInt(as))
      }
      version + compact(render(placed))
    }
  }

  /** Writes a small file. */
  def put(name: String, content: String): Unit = {
    val file = new Path(root, name)
    val files = CheckpointFiles.create(file.getParent, conf)
    files.mkdirs(file.getParent)
    CheckpointFiles.write(files, file, overwriteIfPossible = true)(_.write(content.getBytes(UTF_8)))
  }

  /** A file of the source. Names are checked where they are read; this makes sure that nothing is
    * written outside of the copy.
    */
  private def checked(path: Path): Path = {
    require(!path.toUri.getPath.split('/').contains(".."), s"$path is outside of the checkpoint")
    path
  }

  private def checked(name: String): Path = {
    require(!name.split('/').contains(".."), s"$name is outside of the checkpoint")
    new Path(source.root, name)
  }
}

private[keystate] object CheckpointDraft {

  /** A folder beside a place. */
  def beside(target: Path, end: String): Path =
    below(target.getParent, s".${target.getName}.$end")

  /** A name with a colon alone would be taken for a URL. */
  private def below(folder: Path, name: String) = new Path(folder, new Path(null, null, name))

  /** The names of the folders in which a checkpoint is made, next to its place. */
  def nameOf(target: Path): Regex = named(Regex.quote(target.getName))

  private def named(target: String): Regex =
    s"\\.($target)\\.${CheckpointFiles.Uuid}(\\.empty)?".r

  private val Any = named(".+")

  def isDraft(folder: Path): Boolean = Any.matches(folder.getName)

  /** The name of the place that a folder is, or was made for. */
  def targetName(folder: Path): String = folder.getName match {
    case Any(name, _) => name
    case name => name
  }

  /** A run file that is copied.
    *
    * @param path
    *   relative to the operator's folder in the source
    * @param to
    *   relative to the copy
    */
  private final case class Copied(
      storage: SparkCheckpointStorage,
      path: String,
      to: String,
      bytes: Long,
      location: StoreLocation
  ) {
    def from: Path = storage.file(path)
  }
}
