package keystate.faults

import java.io.{ByteArrayOutputStream, File, OutputStream}
import java.net.URI
import java.nio.file.StandardCopyOption.{ATOMIC_MOVE, REPLACE_EXISTING}
import java.nio.file.{FileAlreadyExistsException => NioFileAlreadyExistsException, Files}
import java.util.concurrent.locks.LockSupport
import java.util.{Collection => JCollection, Collections, List => JList, Map => JMap, Set => JSet}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Abortable.AbortableResult
import org.apache.hadoop.fs.Options.CreateFileOptionKeys
import org.apache.hadoop.fs._
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.util.Progressable

/** The local disk as `objects:///path`, or by another scheme, with the abilities and the manners of an object store: a
  * file appears when its stream is closed, whole; it can be created only if there is none; a stream
  * can be aborted; a rename is refused. With the setting `fs.objects.rename` it is a file system
  * that renames instead, and has none of these abilities.
  *
  * Every request is counted by [[Requests]], and waits as long as `fs.objects.delayMs` says. Things
  * go wrong as a [[FaultPlan]] says, if there is one (`fs.fault.plan`).
  */
class ObjectFileSystem extends RawLocalFileSystem {
  import ObjectFileSystem._

  private lazy val plan =
    Option(getConf.get(FaultFileSystem.Plan)).map(folder => new FaultPlan(new File(folder)))
  private lazy val renames = getConf.getBoolean(Rename, false)
  private lazy val delayNanos = getConf.getLong(DelayMs, 0) * 1000000

  // Asked for before this object is complete.
  private var root: URI = _

  override def initialize(name: URI, conf: Configuration): Unit = {
    super.initialize(name, conf)
    root = URI.create(s"${name.getScheme}:///")
  }
  override def getUri: URI = if (root == null) Root else root
  override def getScheme: String = getUri.getScheme

  override def hasPathCapability(path: Path, capability: String): Boolean = capability match {
    case CommonPathCapabilities.ABORTABLE_STREAM |
        CreateFileOptionKeys.FS_OPTION_CREATE_CONDITIONAL_OVERWRITE =>
      !renames
    case other => super.hasPathCapability(path, other)
  }

  override def createFile(path: Path): FSDataOutputStreamBuilder[_, _] =
    if (renames) super.createFile(path) else new Builder(path)

  // What its siblings come to.
  override def create(
      path: Path,
      overwrite: Boolean,
      bufferSize: Int,
      replication: Short,
      blockSize: Long,
      progress: Progressable
  ): FSDataOutputStream =
    if (renames) request("PUT", "create", path) {
      super.create(path, overwrite, bufferSize, replication, blockSize, progress)
    }
    else stream(path, ifAbsent = false)

  override def open(path: Path, bufferSize: Int): FSDataInputStream =
    request("GET", "open", path)(super.open(path, bufferSize))

  override def delete(path: Path, recursive: Boolean): Boolean =
    request("DELETE", "delete", path)(super.delete(path, recursive))

  override def createBulkDelete(base: Path): BulkDelete = new BulkDelete {
    override def pageSize: Int = Page
    override def basePath: Path = base
    override def bulkDelete(paths: JCollection[Path]): JList[JMap.Entry[Path, String]] = {
      require(paths.size <= Page)
      request("DELETE", "delete", base) {
        paths.forEach { path =>
          val _ = pathToFile(path).delete()
        }
      }
      Collections.emptyList()
    }
    override def close(): Unit = ()
  }

  override def listStatus(path: Path): Array[FileStatus] =
    request("LIST", "list", path)(super.listStatus(path))

  override def getFileStatus(path: Path): FileStatus =
    request("HEAD", "status", path)(super.getFileStatus(path))

  override def exists(path: Path): Boolean = request("HEAD", "status", path)(super.exists(path))

  override def mkdirs(path: Path, permission: FsPermission): Boolean =
    request("MKDIR", "mkdirs", path)(super.mkdirs(path, permission))

  override def mkdirs(path: Path): Boolean =
    request("MKDIR", "mkdirs", path)(super.mkdirs(path))

  override def rename(source: Path, target: Path): Boolean =
    request("RENAME", "rename", target) {
      if (!renames) throw new UnsupportedOperationException(s"rename of $source to $target")
      super.rename(source, target)
    }

  /** Counts a request, unless it is a part of another one. */
  private def request[T](verb: String, step: String, path: Path)(body: => T): T =
    if (within.get) body
    else {
      Requests.count(verb, path.toUri.getPath)
      if (delayNanos > 0) LockSupport.parkNanos(delayNanos)
      plan.foreach(_.at(step, path.toUri.getPath))
      within.set(true)
      try body
      finally within.set(false)
    }

  private def stream(path: Path, ifAbsent: Boolean): FSDataOutputStream =
    new FSDataOutputStream(new ObjectStream(path, ifAbsent), null)

  private final class Builder(path: Path)
      extends FSDataOutputStreamBuilder[FSDataOutputStream, Builder](this, path) {
    override def getThisBuilder: Builder = this
    override def build(): FSDataOutputStream = {
      val known: JSet[String] =
        Collections.singleton(CreateFileOptionKeys.FS_OPTION_CREATE_CONDITIONAL_OVERWRITE)
      rejectUnknownMandatoryKeys(known, "")
      stream(
        getPath,
        getOptions.getBoolean(CreateFileOptionKeys.FS_OPTION_CREATE_CONDITIONAL_OVERWRITE, false)
      )
    }
  }

  /** Keeps the bytes until the end, as a store does with what is uploaded in one request. */
  private final class ObjectStream(path: Path, ifAbsent: Boolean)
      extends OutputStream
      with Abortable {
    private val name = path.toUri.getPath
    private val bytes = new ByteArrayOutputStream
    private var ended = false

    override def write(b: Int): Unit = write(Array(b.toByte), 0, 1)
    override def write(added: Array[Byte], offset: Int, length: Int): Unit = {
      val room = plan.fold(length)(_.roomFor(name, bytes.size.toLong, length))
      bytes.write(added, offset, room)
      if (room < length) {
        plan.foreach(_.at("write", name))
        bytes.write(added, offset + room, length - room)
      }
    }

    override def abort(): AbortableResult = {
      val before = ended
      ended = true
      new AbortableResult {
        override def alreadyClosed: Boolean = before
        override def anyCleanupException: java.io.IOException = null
      }
    }

    override def close(): Unit = if (!ended) {
      ended = true
      request("PUT", "close", path)(appear())
      plan.foreach(_.at("closed", name))
    }

    private def appear(): Unit = {
      val file = pathToFile(path)
      Files.createDirectories(file.getParentFile.toPath)
      val whole = Files.createTempFile(uploads, "upload", "")
      Files.write(whole, bytes.toByteArray)
      if (ifAbsent)
        try {
          Files.createLink(file.toPath, whole)
          Files.delete(whole)
        } catch {
          case e: NioFileAlreadyExistsException =>
            Files.delete(whole)
            throw new java.io.IOException(s"412 Precondition Failed: $path", e)
        }
      else {
        Files.move(whole, file.toPath, ATOMIC_MOVE, REPLACE_EXISTING)
        ()
      }
    }

    /** Where nobody lists. */
    private def uploads = {
      val folder = new File(sys.props("java.io.tmpdir"), "keystate-uploads").toPath
      Files.createDirectories(folder)
    }
  }
}

object ObjectFileSystem {
  final val Scheme = "objects"
  final val Rename = "fs.objects.rename"
  final val DelayMs = "fs.objects.delayMs"
  private final val Page = 250
  private val Root = URI.create(s"$Scheme:///")
  private val within = ThreadLocal.withInitial[Boolean](() => false)

  def settings(rename: Boolean = false, delayMs: Long = 0): Map[String, String] = Map(
    "fs.objects.impl" -> classOf[ObjectFileSystem].getName,
    "fs.objects.impl.disable.cache" -> "true",
    Rename -> rename.toString,
    DelayMs -> delayMs.toString
  )
}
