package org.apache.spark.sql.keystate.files

import java.io.{FileNotFoundException, IOException}
import java.net.URI
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, NoSuchFileException, Path => JPath, Paths}
import java.util.concurrent.ConcurrentHashMap

import scala.util.Using
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.hadoop.fs.local.LocalFs
import org.json4s.JsonDSL._
import org.json4s.jackson.JsonMethods.{compact, parse}
import org.json4s.{JInt, JObject}

import org.apache.spark.deploy.SparkHadoopUtil
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.internal.SQLConf

import keystate.config.Settings
import keystate.errors.{DamagedFileException, UnsupportedFormatException}

/** Opens and writes the files of checkpoints. */
private[keystate] object CheckpointFiles {

  /** A UUID as names of files have it, as a regular expression without groups. */
  final val Uuid = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"

  private val Setting = SQLConf.STREAMING_CHECKPOINT_FILE_MANAGER_CLASS.parent.key

  /** The manager of a checkpoint's files: the class that the setting names or, without the setting,
    * the fastest suitable one.
    */
  def create(path: Path, conf: Configuration): CheckpointFileManager =
    conf.get(Setting) match {
      case null | Settings.FileManagerClass => select(path, conf)
      case _ => CheckpointFileManager.create(path, conf)
    }

  /** The manager of the logs and the metadata of a query: like `create`, but files that its run has
    * read or written are not requested again ([[CheckpointCache]]).
    */
  def ofRun(path: Path, conf: Configuration): CheckpointFileManager =
    new CachingCheckpointFileManager(create(path, conf))

  /** Whether Keystate's manager, which reports to the [[CheckpointCache]], writes Spark's logs. */
  def managesLogs(conf: Configuration): Boolean = conf.get(Setting) == Settings.FileManagerClass

  /** Writes a file whole. If that fails, no new file is left. */
  def write(files: CheckpointFileManager, file: Path, overwriteIfPossible: Boolean)(
      content: FSDataOutputStream => Unit
  ): Unit = {
    val out = files.createAtomic(file, overwriteIfPossible)
    try {
      content(out)
      out.close()
    } catch {
      case e: Throwable =>
        out.cancel()
        throw naming(file, e)
    }
  }

  /** A full disk's error names no file. */
  private def naming(file: Path, error: Throwable): Throwable = error match {
    case e: IOException if e.getClass == classOf[IOException] && e.getCause == null =>
      new IOException(s"$file: ${e.getMessage}", e)
    case other => other
  }

  /** The content of a file. None if the file does not exist. */
  def readIfThere(files: CheckpointFileManager, file: Path): Option[Array[Byte]] =
    try Some(Using.resource(files.open(file))(_.readAllBytes()))
    catch { case _: FileNotFoundException | _: NoSuchFileException => None }

  /** The format number of Keystate's JSON files, in the field `format` of each. */
  private final val Format = 1

  /** The fields of a JSON file of Keystate's, with the number of the format before them. */
  def withFormat(fields: JObject): JObject = ("format" -> Format) ~ fields

  def writeJson(
      files: CheckpointFileManager,
      file: Path,
      fields: JObject,
      overwriteIfPossible: Boolean
  ): Unit =
    write(files, file, overwriteIfPossible)(_.write(compact(withFormat(fields)).getBytes(UTF_8)))

  /** The content of a JSON file of Keystate. None if the file does not exist. */
  def readJson[T](files: CheckpointFileManager, file: Path)(extract: JObject => T): Option[T] =
    readIfThere(files, file).map(fromJson(_, file.toString)(extract))

  /** Parses the content of such a file. Throws for another format, and for invalid content. */
  def fromJson[T](content: Array[Byte], file: String)(extract: JObject => T): T =
    SparkFiles.reading(new Path(file)) {
      val json = parse(new String(content, UTF_8)).asInstanceOf[JObject]
      json \ "format" match {
        case JInt(number) if number == Format => extract(json)
        case JInt(number) => throw new UnsupportedFormatException(file, number, Format)
        case _ => throw new DamagedFileException(file, "it has no format")
      }
    }

  /** The names of the files in a folder; none if it is not there. */
  def names(files: CheckpointFileManager, folder: Path): Seq[String] =
    try files.list(folder).toSeq.map(_.getPath.getName)
    catch { case _: FileNotFoundException => Nil }

  private[keystate] def select(path: Path, conf: Configuration): CheckpointFileManager =
    if (isPlainLocal(path, conf)) {
      val synced = Settings.SyncFiles.of(key => Option(conf.get(key)))
      new LocalCheckpointFileManager(path, conf, Option.when(synced)(LocalDisk))
    } else
      ObjectCheckpointFileManager.of(path, conf).getOrElse {
        val others = new Configuration(conf)
        others.unset(Setting)
        CheckpointFileManager.create(path, others)
      }

  /** The folder with its scheme, as Spark names a query's checkpoint: no character is escaped. */
  def qualified(folder: String, conf: Configuration): String = {
    val path = new Path(folder)
    val fs = path.getFileSystem(conf)
    path.makeQualified(fs.getUri, fs.getWorkingDirectory).toString
  }

  /** Whether two resolved names are of one place. If a name has no host, Spark adds that of the
    * default file system by Hadoop's `FileContext`, with a port (`hdfs://node:8020/q`). `qualified`
    * adds it by `FileSystem`, with a port only if it was set (`hdfs://node/q`). So the scheme's
    * default port makes no difference, also after a name service.
    */
  def isSamePlace(one: Path, other: Path): Boolean = plainPlace(one) == plainPlace(other)

  /** A name without the port that is the scheme's own: equal for equal places only. */
  def plainPlace(place: Path): Path = {
    val uri = place.toUri
    if (uri.getPort >= 0 && uri.getPort == ports.computeIfAbsent(uri.getScheme, portOf(_))) {
      val user = Option(uri.getUserInfo).fold("")(_ + "@")
      new Path(uri.getScheme, s"$user${uri.getHost}", uri.getPath)
    } else place
  }

  private val ports = new ConcurrentHashMap[String, Int]

  /** Negative if it has none. It belongs to the scheme, so any host will do; none is called. */
  private def portOf(scheme: String): Int =
    try
      FileContext
        .getFileContext(URI.create(s"$scheme://localhost/"), SparkHadoopUtil.get.conf)
        .getDefaultFileSystem
        .getUriDefaultPort
    catch { case NonFatal(_) => -1 } // then Spark does not add it

  /** The target of a place on the local disk that is a symbolic link; otherwise the place itself.
    */
  def behindLink(place: Path, conf: Configuration): Path = {
    val local = Paths.get(place.toUri.getPath)
    if (!isPlainLocal(place, conf) || !Files.isSymbolicLink(local)) place
    else
      new Path(
        place.toUri.getScheme,
        place.toUri.getAuthority,
        s"${realPath(local.getParent.resolve(Files.readSymbolicLink(local)))}"
      )
  }

  /** Whether a folder, which need not exist, is below another one, or equals it. */
  def isBelow(folder: Path, other: Path, conf: Configuration): Boolean = {
    val (one, above) = (plainPlace(folder), plainPlace(other))
    if (isPlainLocal(one, conf) && isPlainLocal(above, conf))
      realPath(Paths.get(one.toUri.getPath)).startsWith(realPath(Paths.get(above.toUri.getPath)))
    else Iterator.iterate(one)(_.getParent).takeWhile(_ != null).contains(above)
  }

  /** Without links, also if there is only a folder above it. */
  private def realPath(path: JPath): JPath = {
    val there = Iterator
      .iterate(path.toAbsolutePath.normalize)(_.getParent)
      .find(Files.exists(_))
      .get
    there.toRealPath().resolve(there.relativize(path.toAbsolutePath.normalize))
  }

  /** Whether the folder is in an object store, where nothing can be renamed. */
  def isObjectStore(folder: Path, conf: Configuration): Boolean =
    !isPlainLocal(folder, conf) && ObjectCheckpointFileManager.of(folder, conf).isDefined

  /** Whether Spark's own manager would use Hadoop's local file system, and not a replacement. */
  def isPlainLocal(folder: Path, conf: Configuration): Boolean =
    try {
      val context =
        if (folder.toUri.getScheme == null) FileContext.getFileContext(conf)
        else FileContext.getFileContext(folder.toUri, conf)
      context.getDefaultFileSystem.getClass == classOf[LocalFs]
    } catch { case _: UnsupportedFileSystemException => false }
}
