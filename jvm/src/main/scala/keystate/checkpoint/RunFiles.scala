package keystate.checkpoint

import java.io.{
  File,
  FileInputStream,
  FileNotFoundException,
  FileOutputStream,
  IOException,
  InputStream,
  OutputStream
}
import java.util.UUID
import java.util.zip.CRC32C

import org.rocksdb.RocksDBException

import keystate.backend.{Change, RunFile}
import keystate.backend.rocksdb.NativeHandles
import keystate.keygroup.KeyGroupRange

/** The runs of a store in the checkpoint's storage: written through a local file, and fetched into
  * one to be read. A fetched file is checked against the manifest's CRC32C before a byte of it is
  * used.
  */
private[checkpoint] final class RunFiles(
    location: StoreLocation,
    storage: CheckpointStorage,
    local: LocalFolder
) {
  import RunFiles._

  /** Whether the backend looks up keys in the files, which then get filters. */
  @volatile var withFilters = false

  /** Writes a run file under a new unique name. There must be at least one change. */
  def write(changes: Iterator[Change], version: Long, id: Option[String]): Run = {
    val file = local.newFile()
    try write(file, changes, version, id)
    finally {
      file.delete()
      ()
    }
  }

  /** Likewise, by way of this local file, which stays unless it fails. */
  def write(file: File, changes: Iterator[Change], version: Long, id: Option[String]): Run =
    try {
      // A backend that takes files over takes SST files.
      val plain = !withFilters && !NativeHandles.canLoadLibrary
      val statistics =
        if (plain) PlainRun.write(file, changes) else SstFiles.write(file, changes, withFilters)
      val path = s"${location.folder}/${RunFiles.name(version, plain)}"
      var crc = 0
      CheckpointStorage.write(storage, path) { out =>
        val in = new FileInputStream(file)
        try crc = copy(in, out)
        finally in.close()
      }
      Run(FileSource(path), statistics.entries, file.length, statistics.groups, crc, version, id)
    } catch {
      case e: Throwable =>
        file.delete()
        throw e
    }

  /** The run's entries of these families and groups, as far as the manifest takes groups from it.
    *
    * @param neededBy
    *   the version that is being read, for messages
    */
  def read(run: Run, families: Set[Int], groups: KeyGroupRange, neededBy: Long): RunCursor = {
    val taken = groups.intersection(run.groups)
    run.source match {
      case inline: InlineSource => PlainRun.read(inline.content, families, taken)
      case FileSource(path) if isPlain(path) =>
        PlainRun.read(fetch(run, path, neededBy), families, taken)
      case FileSource(path) =>
        val file = fetch(run, path, neededBy)
        try SstFiles.read(file, families, taken)
        catch {
          case e: RocksDBException =>
            file.delete()
            throw corrupt(path, neededBy, e.getMessage, e)
        }
    }
  }

  /** The run for a backend that reads SST files itself; the file is the caller's. */
  def local(run: Run, path: String, families: Set[Int], neededBy: Long): RunFile = {
    val file = fetch(run, path, neededBy)
    try RunFile(file, run.groups, SstFiles.hasOnly(file, families, run.groups))
    catch {
      case e: RocksDBException =>
        file.delete()
        throw corrupt(path, neededBy, e.getMessage, e)
    }
  }

  /** Reads the whole file; throws when it is not what was written. */
  def check(run: Run, path: String, neededBy: Long): Unit = {
    fetch(run, path, neededBy).delete()
    ()
  }

  private def fetch(run: Run, path: String, neededBy: Long): File = {
    val file = local.newFile()
    try {
      val in =
        try storage.open(path)
        catch {
          case e: FileNotFoundException =>
            throw new MissingRunException(location, neededBy, storage.describe(path), e)
        }
      val crc =
        try {
          val out = new LocalOutput(file)
          try copy(in, out)
          finally out.close()
        } finally in.close()
      if (file.length != run.bytes)
        throw corrupt(path, neededBy, s"it has ${file.length} bytes instead of ${run.bytes}")
      if (crc != run.crc32c) throw corrupt(path, neededBy, "its checksum is wrong")
      file
    } catch {
      case e: Throwable =>
        file.delete()
        throw e
    }
  }

  private def corrupt(path: String, version: Long, detail: String, cause: Throwable = null) =
    new CorruptFileException(location, version, storage.describe(path), detail, cause)
}

private[checkpoint] object RunFiles {
  private final val CopyBuffer = 128 * 1024
  private val Name = """(\d+)-[^.]+\.(?:sst|run)""".r

  private def name(version: Long, plain: Boolean): String =
    s"$version-${UUID.randomUUID}.${if (plain) "run" else "sst"}"

  /** Whether a run file is a [[PlainRun]] rather than an SST file. */
  def isPlain(path: String): Boolean = path.endsWith(".run")

  /** The version that wrote a file of this name, if it is a run file's name. */
  def versionOf(name: String): Option[Long] = name match {
    case Name(version) => version.toLongOption
    case _ => None
  }

  /** Tells its own errors from those of what is copied into it. */
  private final class LocalOutput(file: File) extends OutputStream {
    private val out = orSay(new FileOutputStream(file))

    override def write(byte: Int): Unit = orSay(out.write(byte))
    override def write(bytes: Array[Byte], offset: Int, length: Int): Unit =
      orSay(out.write(bytes, offset, length))
    override def close(): Unit = orSay(out.close())

    private def orSay[T](body: => T): T =
      try body
      catch { case e: IOException => throw new LocalStorageException(file, e) }
  }

  /** Returns the CRC32C of what was copied. */
  private def copy(in: InputStream, out: OutputStream): Int = {
    val crc = new CRC32C
    val buffer = new Array[Byte](CopyBuffer)
    var length = in.read(buffer)
    while (length >= 0) {
      crc.update(buffer, 0, length)
      out.write(buffer, 0, length)
      length = in.read(buffer)
    }
    crc.getValue.toInt
  }
}
