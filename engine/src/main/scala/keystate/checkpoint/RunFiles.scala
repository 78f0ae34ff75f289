package keystate.checkpoint

import java.io.{
  ByteArrayInputStream, ByteArrayOutputStream, File, FileInputStream, FileNotFoundException,
  FileOutputStream, IOException, InputStream, OutputStream
}
import java.util.Arrays

import org.rocksdb.RocksDBException

import keystate.backend.{Change, RestoredRun, RunCursor, RunEntries, RunFile, RunFormat}
import keystate.errors.{CorruptFileException, LocalStorageException, MissingRunException}
import keystate.files.{CheckedFiles, CheckpointStorage, LocalFolder, StoreLocation, Summed}
import keystate.keygroup.KeyGroupRange
import keystate.version.{
  FileSource, InlineSource, PlainRun, Run, RunIndex, Section, SstFiles, UnpackedStream
}

/** Reads the runs of a store from the checkpoint's storage, through a local file, or through memory
  * if the file is small. Before any byte of a file is used, its length and CRC32C are checked
  * against the manifest's. [[RunWriter]] lists the kinds of files. From a
  * [[keystate.version.SectionedRun]] only the needed sections are fetched. Each section is checked
  * against its CRC32C in the file's [[RunIndex]], which has its own CRC32C.
  *
  * Reading throws [[MissingRunException]] for a missing file, [[CorruptFileException]] for a file
  * that differs from what was written, and [[LocalStorageException]] when the local disk fails. Any
  * thread may call it.
  */
private[checkpoint] final class RunFiles(
    location: StoreLocation,
    storage: CheckpointStorage,
    local: LocalFolder
) {
  import RunFiles._

  /** The run's entries of these families and groups, as far as the manifest takes groups from it.
    *
    * @param isWhole
    *   whether its file has hardly any other entries: then all of it is fetched, and its index is
    *   not looked at
    * @param neededBy
    *   the version that is being read, for messages
    */
  def read(
      run: Run,
      isWhole: Boolean,
      families: Set[Int],
      groups: KeyGroupRange,
      neededBy: Long
  ): RunCursor = {
    val taken = groups.intersection(run.groups)
    run.source match {
      case inline: InlineSource => PlainRun.read(inline.content, families, taken)
      case FileSource(path) if isSmall(run, path) =>
        def damaged(e: Exception) = corrupt(path, neededBy, e.getMessage, e)
        PlainRun.read(UnpackedStream(inMemory(run, path, neededBy)), families, taken, damaged)
      case FileSource(path) =>
        fetchWanted(run, path, isWhole, families, taken, neededBy) match {
          case Some((file, _)) => entries(path, file, families, taken, neededBy)
          case None => PlainRun.read(Array.emptyByteArray, families, taken)
        }
    }
  }

  /** The entries of a run, to be read later, and as often as needed. Not for an SST file. */
  def keep(
      run: Run,
      isWhole: Boolean,
      families: Set[Int],
      groups: KeyGroupRange,
      neededBy: Long
  ): LocalRun = {
    val taken = groups.intersection(run.groups)
    run.source match {
      case inline: InlineSource => new LocalInlineRun(inline.content, taken)
      case FileSource(path) =>
        def damaged(detail: String, cause: Exception) = corrupt(path, neededBy, detail, cause)
        fetchWanted(run, path, isWhole, families, taken, neededBy) match {
          case Some((file, sections)) => new LocalRunFile(file, sections, taken, damaged)
          case None => new LocalInlineRun(Array.emptyByteArray, taken)
        }
    }
  }

  /** The run's entries of one family and group, from this entry key on and before the other.
    *
    * Of an SST file that is on a local disk only the blocks that are needed are read, and RocksDB
    * checks the checksum of each; elsewhere the file is fetched whole.
    */
  def find(
      run: Run,
      family: Int,
      group: Int,
      from: Array[Byte],
      until: Array[Byte],
      neededBy: Long
  ): Vector[Change] = run.source match {
    case FileSource(path) if isSst(path) =>
      val file = localFile { file =>
        if (!isLinked(file, run, path, neededBy)) copyTo(file, run, path, neededBy)
      }
      val prefix = RunFormat.prefix(family, group)
      try SstFiles.find(file, prefix ++ from, prefix ++ until)
      catch { case e: RocksDBException => throw corrupt(path, neededBy, e.getMessage, e) }
      finally
        file.delete(): Unit
    case _ =>
      val only = KeyGroupRange(group, group)
      val entries = read(run, isWhole = false, Set(family), only, neededBy)
      try
        entries
          .dropWhile(entry => Arrays.compareUnsigned(entry.key, from) < 0)
          .takeWhile(entry => Arrays.compareUnsigned(entry.key, until) < 0)
          .toVector
      finally entries.close()
  }

  /** Whether a file has an entry, or a removal, with a wanted key in these families and groups. The
    * whole file is read. No manifest need list it, so its checksum is not checked.
    */
  def hasEntry(path: String, families: Set[Int], groups: KeyGroupRange)(
      isWanted: Array[Byte] => Boolean
  ): Boolean = {
    val file = localFile { file =>
      if (!storage.link(path, file))
        sum(storage.open(path, 0), new LocalOutput(file)): Unit
    }
    val found = entries(path, file, families, groups, neededBy = 0)
    try found.exists(entry => isWanted(entry.key))
    finally found.close()
  }

  /** The entries of a local file in the format of this path. Closing the cursor deletes the file.
    */
  private def entries(
      path: String,
      file: File,
      families: Set[Int],
      groups: KeyGroupRange,
      neededBy: Long
  ): RunCursor =
    try {
      def damaged(e: Exception) = corrupt(path, neededBy, e.getMessage, e)
      if (isSst(path)) SstFiles.read(file, families, groups, damaged)
      else PlainRun.read(stream(file), families, groups, damaged)
    } catch {
      case e: Throwable =>
        file.delete()
        e match {
          case _: RocksDBException | _: IOException =>
            throw corrupt(path, neededBy, e.getMessage, e)
          case _ => throw e
        }
    }

  /** The run for a backend that takes SST files over; a file is the caller's to delete. A run file
    * of another format is made into an SST file.
    *
    * @param isWhole
    *   whether its file is known to have no other groups than the run
    */
  def local(
      run: Run,
      isWhole: Boolean,
      families: Set[Int],
      groups: KeyGroupRange,
      neededBy: Long
  ): RestoredRun =
    run.source match {
      case FileSource(path) if isSst(path) =>
        val file = fetchSst(run, path, neededBy)
        try
          RunFile(file, run.groups, isWhole || SstFiles.hasOnly(file, families, run.groups))
        catch {
          case e: RocksDBException =>
            file.delete()
            throw corrupt(path, neededBy, e.getMessage, e)
        }
      case source =>
        val entries = read(run, isWhole, families, groups, neededBy)
        if (source.isInstanceOf[InlineSource] || !entries.hasNext) RunEntries(entries)
        else
          try {
            val file = local.newFile()
            SstFiles.write(file, _.addAll(entries), SstFiles.QuickToRead)
            RunFile(file, run.groups, isWhole = true)
          } finally entries.close()
    }

  /** Reads the whole file, and throws if it differs from what was written. */
  def check(run: Run, path: String, neededBy: Long): Unit =
    copyInto(OutputStream.nullOutputStream, run, path, neededBy)

  private def fetch(run: Run, path: String, neededBy: Long): File =
    fetch(run, path, neededBy, sumOf)

  /** A file that this process has written or checked is not read for that again: RocksDB checks the
    * checksum of each block when it reads it.
    */
  private def fetchSst(run: Run, path: String, neededBy: Long): File =
    fetch(run, path, neededBy, file => CheckedFiles.crc32c(file)(sumOf(file)))

  private def fetch(run: Run, path: String, neededBy: Long, crc32cOf: File => Int): File =
    localFile { file =>
      if (!isLinked(file, run, path, neededBy)) copyTo(file, run, path, neededBy)
      else if (crc32cOf(file) != run.crc32c) throw wrongChecksum(path, neededBy)
    }

  private def sumOf(file: File): Int =
    sum(new FileInputStream(file), OutputStream.nullOutputStream).crc32c

  /** Whether the file could be linked instead of copied. Its length is then that of the run. */
  private def isLinked(file: File, run: Run, path: String, neededBy: Long): Boolean = {
    val isLinked = storage.link(path, file)
    if (isLinked && file.length != run.bytes)
      throw wrongLength(run, path, file.length, neededBy)
    isLinked
  }

  private def copyTo(file: File, run: Run, path: String, neededBy: Long): Unit =
    copyInto(new LocalOutput(file), run, path, neededBy)

  private def inMemory(run: Run, path: String, neededBy: Long): InputStream = {
    val copy = new ByteArrayOutputStream(run.bytes.toInt)
    copyInto(copy, run, path, neededBy)
    new ByteArrayInputStream(copy.toByteArray)
  }

  private def copyInto(out: => OutputStream, run: Run, path: String, neededBy: Long): Unit = {
    // One byte more detects a file that is too long.
    val copied = sum(open(run, path, neededBy), out, run.bytes + 1)
    if (copied.length != run.bytes) throw wrongLength(run, path, copied.length, neededBy)
    if (copied.crc32c != run.crc32c) throw wrongChecksum(path, neededBy)
  }

  /** Fetches at least the entries of these families and groups: a local file with whole sections,
    * and the position of each section in it. There are no positions if the file's index was not
    * needed or does not exist. None when the file has no wanted entry.
    */
  private def fetchWanted(
      run: Run,
      path: String,
      isWhole: Boolean,
      families: Set[Int],
      taken: KeyGroupRange,
      neededBy: Long
  ): Option[(File, Vector[Section])] = {
    val all =
      if (isWhole || run.bytes <= IndexGuess) Vector.empty
      else sections(run.bytes, storage.open(path, _, run.bytes))
    val wanted = RunIndex.choose(all, families, taken)
    if (wanted.size == all.size) Some(fetch(run, path, neededBy) -> all)
    else
      Option.when(wanted.nonEmpty) {
        val offsets = wanted.scanLeft(0L)(_ + _.length)
        fetchSections(run, path, wanted, neededBy) ->
          wanted.zip(offsets).map { case (section, offset) => section.copy(offset = offset) }
      }
  }

  private def fetchSections(run: Run, path: String, wanted: Seq[Section], neededBy: Long): File =
    localFile { file =>
      var in = InputStream.nullInputStream
      val out = new LocalOutput(file)
      try {
        var position = -1L
        wanted.foreach { section =>
          if (section.offset != position) {
            in.close()
            in = open(run, path, neededBy, section.offset)
          }
          position = section.end
          val fetched = new Summed(out)
          copy(in, fetched, section.length)
          if (fetched.length != section.length || fetched.crc32c != section.crc32c)
            throw corrupt(
              path,
              neededBy,
              s"the checksum of bytes ${section.offset} to ${section.end - 1} is wrong"
            )
        }
      } finally {
        in.close()
        out.close()
      }
    }

  /** A new local file, which is deleted if `fill` throws. */
  private def localFile(fill: File => Unit): File = {
    val file = local.newFile()
    try {
      fill(file)
      file
    } catch {
      case e: Throwable =>
        file.delete()
        throw e
    }
  }

  private def open(run: Run, path: String, neededBy: Long, offset: Long = 0): InputStream =
    try storage.open(path, offset, run.bytes)
    catch {
      case e: FileNotFoundException =>
        throw new MissingRunException(location, neededBy, storage.describe(path), e)
    }

  private def wrongLength(run: Run, path: String, length: Long, neededBy: Long) =
    corrupt(
      path,
      neededBy,
      if (length > run.bytes) s"it has more than ${run.bytes} bytes"
      else s"it has $length bytes instead of ${run.bytes}"
    )

  private def wrongChecksum(path: String, neededBy: Long) =
    corrupt(path, neededBy, "its checksum is wrong")

  private def corrupt(path: String, version: Long, detail: String, cause: Throwable = null) =
    new CorruptFileException(location, version, storage.describe(path), detail, cause)
}

private[checkpoint] object RunFiles {
  private final val CopyBuffer = 128 * 1024

  /** The ends of the names that run files get. */
  final val SstSuffix = ".sst"
  final val SectionedSuffix = ".lz4"

  /** How many bytes of a file's end are read first; they mostly contain the whole index. A file of
    * at most this length is read whole.
    */
  private final val IndexGuess = 16 * 1024

  /** Whether reading the file into memory costs less than a local file. */
  private def isSmall(run: Run, path: String): Boolean =
    isSectioned(path) && run.bytes <= IndexGuess

  private val Name = """(\d+)-[^.]+\.(?:sst|lz4)""".r

  def isSst(path: String): Boolean = path.endsWith(SstSuffix)

  /** Whether the file is a [[keystate.version.SectionedRun]]. */
  def isSectioned(path: String): Boolean = path.endsWith(SectionedSuffix)

  /** The sections of a file, by its index; empty where there is none, and where anything is wrong
    * with it. Then the file is read whole, and that throws if it is damaged.
    *
    * @param open
    *   opens the file from this byte on
    */
  def sections(fileLength: Long, open: Long => InputStream): Vector[Section] = {
    def end(length: Int): Array[Byte] = {
      val in = open(fileLength - length)
      try in.readNBytes(length)
      finally in.close()
    }
    try {
      val guess = end(Math.min(fileLength, IndexGuess.toLong).toInt)
      val known = RunIndex.lengthAtEnd(guess).filter(_ <= fileLength).flatMap { length =>
        val index = if (length <= guess.length) guess.takeRight(length) else end(length)
        RunIndex.decode(index, fileLength)
      }
      known.getOrElse(Vector.empty)
    } catch { case _: IOException => Vector.empty }
  }

  /** The bytes of a [[PlainRun]] in a local file; closing the stream deletes the file. */
  private def stream(file: File): InputStream = UnpackedStream(new FileInputStream(file) {
    override def close(): Unit = {
      super.close()
      file.delete(): Unit
    }
  })

  /** The version in the name of a run file: its newest commit. None for other names. */
  def versionOf(name: String): Option[Long] = name match {
    case Name(version) => version.toLongOption
    case _ => None
  }

  /** Writes a local file. Its errors are LocalStorageExceptions, so that they differ from errors of
    * the source.
    */
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

  /** Copies `limit` bytes, or all that there are if these are fewer. */
  def copy(in: InputStream, out: OutputStream, limit: Long = Long.MaxValue): Unit = {
    val buffer = new Array[Byte](CopyBuffer)
    var left = limit
    var length = 0
    while (left > 0 && length >= 0) {
      length = in.read(buffer, 0, Math.min(buffer.length, left).toInt)
      if (length > 0) {
        out.write(buffer, 0, length)
        left -= length
      }
    }
  }

  /** Copies `in` into `out`, as `copy`, for its length and checksum, and closes both. */
  private def sum(in: InputStream, out: => OutputStream, limit: Long = Long.MaxValue): Summed =
    try {
      val opened = out
      try {
        val summed = new Summed(opened)
        copy(in, summed, limit)
        summed
      } finally opened.close()
    } finally in.close()
}
