package org.apache.spark.sql.keystate.copies

import java.io.FileNotFoundException
import java.nio.charset.StandardCharsets.UTF_8
import java.util.UUID

import scala.annotation.tailrec
import scala.util.Using
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileAlreadyExistsException, FileUtil, Path}
import org.json4s._
import org.json4s.jackson.JsonMethods.{compact, parse, render}

import keystate.checkpoint.StoreReader
import keystate.errors.{KeystateErrors, KeystateException, MissingRunException}
import keystate.files.{Concurrently, StoreLocation}
import org.apache.spark.sql.keystate.checkpoint.{CommittedBatch, QueryCheckpoint}
import org.apache.spark.sql.keystate.files.{CheckpointFiles, CheckpointOwner, SparkFiles}
import org.apache.spark.sql.keystate.metadata.SparkStoreMetadata

/** A new checkpoint that is made from another one. It is written to a folder next to its final
  * place, and that folder is then renamed. So it appears whole, if the file system renames a folder
  * in one step.
  *
  * In an object store it is written where it is to be, because nothing there renames a folder. A
  * file `_keystate/unfinished` is the first to be written and is deleted at the end. No query starts
  * on a checkpoint that has it, and nothing else reads such a one.
  *
  * @param exists
  *   makes the error for a place where something is already
  */
private[keystate] final class CheckpointDraft(
    source: QueryCheckpoint,
    target: Path,
    conf: Configuration,
    exists: String => KeystateException
) {
  private implicit val formats: Formats = DefaultFormats
  private val fs = target.getFileSystem(conf)

  private val inPlace = CheckpointFiles.isObjectStore(target, conf)

  val root: Path =
    if (inPlace) target
    else new Path(target.getParent, s".${target.getName}.${UUID.randomUUID}")

  /** Writes all of it. If anything fails, nothing is left behind. */
  def write(body: => Unit): Unit = {
    if (fs.exists(target) && fs.listStatus(target).nonEmpty) throw exists(target.toString)
    // The first file: of logs without it Spark says so before a query can learn that this was cut
    // off.
    def all(): Unit = {
      copy(Seq("metadata"))
      body
    }
    if (inPlace) writeInPlace(all()) else writeAndRename(all())
  }

  private def writeInPlace(body: => Unit): Unit = {
    val mark = CheckpointOwner.unfinished(target)
    val files = CheckpointFiles.create(target, conf)
    try CheckpointFiles.write(files, mark, overwriteIfPossible = false)(_ => ())
    catch { case _: FileAlreadyExistsException => throw exists(target.toString) }
    try body
    catch {
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
      fs.delete(target, true) // if it is there, it is empty
      if (!fs.rename(root, target)) throw exists(target.toString)
    } finally deleteForGood()

  /** Tasks of a job that failed may write on for a moment, and make the folder again. */
  @tailrec private def deleteForGood(attempts: Int = 50): Unit = {
    val wasThere = fs.delete(root, true)
    if (wasThere && attempts > 1) {
      Thread.sleep(100)
      deleteForGood(attempts - 1)
    }
  }

  /** Copies those of the named files that exist; a running query may be deleting them. */
  def copy(names: Seq[String]): Unit =
    Concurrently.foreach(names.distinct)(copyFile)(_ => ())(_ => ())

  private def copyFile(name: String): Unit = {
    val from = checked(name)
    if (source.files.exists(from))
      try copy(from, name)
      catch { case _: FileNotFoundException => }
  }

  private def copy(from: Path, name: String): Unit = {
    FileUtil.copy(from.getFileSystem(conf), from, fs, new Path(root, name), false, conf)
    ()
  }

  /** Copies what describes the state, but not the state: records, metadata and schemas. */
  def copyMetadata(): Unit =
    source.operators.foreach(operator => describe(source, operator, operator))

  /** Copies what describes one operator of a checkpoint, for the operator of the number `as`. */
  def describe(from: QueryCheckpoint, operator: Long, as: Long): Unit = {
    val described = below(from, s"state/$operator")
      .filter(_.split('/').dropRight(1).exists(_.startsWith("_")))
    described.foreach { name =>
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
  }

  /** Copies the files that hold the state of operators after a micro-batch. Throws if one is
    * missing.
    *
    * @param operators
    *   each with its number in the copy
    * @param between
    *   is called before each file
    */
  def copyState(
      batch: CommittedBatch,
      operators: Seq[(Long, Long)],
      between: () => Unit = () => ()
  ): Unit = {
    val files = for {
      (operator, as) <- operators
      store <- source.stores(operator)
      partition <- 0 until source.partitions(batch, operator)
      reader = source.reader(operator, partition, store)
      file <- copyVersion(batch, reader, as)
    } yield (s"state/$operator/$file", s"state/$as/$file", reader.location)
    Concurrently.foreach(files.distinctBy(_._1)) { case (name, to, location) =>
      between()
      try copy(checked(name), to)
      catch {
        case e: FileNotFoundException =>
          throw new MissingRunException(location, batch.version, name, e)
      }
    }(_ => ())(_ => ())
  }

  /** Copies a version's file, and returns the run files that the copy lists. The one that it is
    * copied from may be replaced meanwhile: with checkpoint format v1 by a late attempt.
    */
  private def copyVersion(batch: CommittedBatch, reader: StoreReader, as: Long): Seq[String] = {
    val StoreLocation(operator, partition, store) = reader.location
    val id = source.idOf(batch, operator, partition, store)
    def manifest(of: StoreReader) = of.manifest(batch.version, id, batch.partitions)
    val listed = manifest(reader)
    val file = reader.versionFile(batch.version, id, batch.partitions)
    copy(checked(s"state/$operator/$file"), s"state/$as/$file")
    val copied = source.readerOfCopy(reader.location, new Path(root, s"state/$as"))
    StoreReader.files(if (id.isDefined) listed else manifest(copied))
  }

  /** Copies the logs as they are after a micro-batch, and what sources keep. Later ones are left
    * out. Spark also reads the entry before the last one.
    */
  def copyLogs(batch: CommittedBatch): Unit = {
    val logs = Seq("offsets", "commits").flatMap { log =>
      Seq(batch.number - 1, batch.number).map(number => s"$log/$number")
    }
    copy(logs ++ below("sources"))
    // Spark deletes old entries while a query runs.
    val before = Option.when(batch.number > 0)(s"offsets/${batch.number - 1}")
    val needed = before ++ Seq(s"offsets/${batch.number}", s"commits/${batch.number}")
    if (!needed.forall(log => fs.exists(new Path(root, log))))
      throw KeystateErrors.noBatch(batch.number, source.location)
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

  private def put(name: String, content: String): Unit = {
    val file = new Path(root, name)
    val files = CheckpointFiles.create(file.getParent, conf)
    files.mkdirs(file.getParent)
    CheckpointFiles.write(files, file, overwriteIfPossible = true)(
      _.write(content.getBytes(UTF_8))
    )
  }

  /** A file of the source. Names are checked where they are read; this makes sure that nothing is
    * written outside of the copy.
    */
  private def checked(name: String): Path = {
    require(!name.split('/').contains(".."), s"$name is outside of the checkpoint")
    new Path(source.root, name)
  }
}
