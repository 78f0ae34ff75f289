package keystate.version

import java.io.{File, IOException}
import java.nio.ByteBuffer
import java.util.Arrays

import org.rocksdb.{
  BlockBasedTableConfig, CompressionType, EnvOptions, Options, ReadOptions, RocksDBException,
  SstFileReader, SstFileReaderIterator, SstFileWriter
}

import keystate.backend.rocksdb.{NativeHandles, TableFormat}
import keystate.backend.{Change, ChangeSink, RunCursor, RunFormat, RunStatistics}
import keystate.errors.LocalStorageException
import keystate.keygroup.KeyGroupRange

/** Reads and writes runs as local SST files of RocksDB, with keys and values as in [[RunFormat]].
  * All of it needs RocksDB's native library. Native objects are always closed in the reverse order
  * of their creation.
  */
private[keystate] object SstFiles {
  // In bytes. A lookup whose block is not in the cache reads and decompresses a whole one.
  private final val BlockSize = 8 * 1024
  private final val InitialBuffer = 4 * 1024

  /** For a file that a database takes over and reads in place. Each lookup decompresses a block,
    * and ZSTD first builds tables for each block.
    */
  final val QuickToRead = CompressionType.LZ4_COMPRESSION

  /** For a file that stays in storage: about half as large. */
  final val Small = CompressionType.ZSTD_COMPRESSION

  /** Writes a run into a new file. There must be at least one change. Throws
    * [[keystate.errors.LocalStorageException]] when RocksDB can't write; the file is the caller's.
    */
  def write(
      file: File,
      changes: ChangeSink => Unit,
      compression: CompressionType
  ): RunStatistics = {
    NativeHandles.loadLibrary()
    val handles = new NativeHandles
    try {
      val environment = handles.add(new EnvOptions)
      val options = handles.add(new Options)
      options.setCompressionType(compression)
      options.setTableFormatConfig(TableFormat(handles).setBlockSize(BlockSize))
      val writer = handles.add(new SstFileWriter(environment, options))
      writer.open(file.getPath)
      val sink = new Sink(writer)
      changes(sink)
      writer.finish()
      sink.statistics
    } catch { case e: RocksDBException => throw new LocalStorageException(file, e) }
    finally handles.close()
  }

  /** The entries of the families whose group is in the range. Closing the cursor deletes the file.
    *
    * @param corrupt
    *   makes the error that is thrown when the file is no run
    */
  def read(
      file: File,
      families: Set[Int],
      groups: KeyGroupRange,
      corrupt: Exception => Exception
  ): RunCursor = {
    NativeHandles.loadLibrary()
    new SstCursor(file, families.toArray.sorted, groups, corrupt)
  }

  /** The entries whose stored keys are in this range. It reads only the file's blocks with these
    * entries, and the index blocks for them. Throws RocksDBException when one of these is damaged.
    */
  def find(file: File, from: Array[Byte], until: Array[Byte]): Vector[Change] = {
    NativeHandles.loadLibrary()
    val handles = new NativeHandles
    try {
      val reader = open(file, handles)
      val entries = handles.add(reader.newIterator(handles.add(new ReadOptions)))
      val found = Vector.newBuilder[Change]
      entries.seek(from)
      while (entries.isValid && Arrays.compareUnsigned(entries.key, until) < 0) {
        found += RunFormat.change(entries.key, entries.value)
        entries.next()
      }
      entries.status()
      found.result()
    } finally handles.close()
  }

  /** Whether all entries of the families are in these groups. Throws RocksDBException when the file
    * is damaged.
    */
  def hasOnly(file: File, families: Set[Int], groups: KeyGroupRange): Boolean = {
    NativeHandles.loadLibrary()
    val handles = new NativeHandles
    try {
      val reader = open(file, handles)
      val entries = handles.add(reader.newIterator(handles.add(new ReadOptions)))
      def atFamily(family: Int) =
        entries.isValid && RunFormat.familyOf(entries.key) == family
      families.forall { family =>
        entries.seek(RunFormat.prefix(family, 0))
        val before = atFamily(family) && RunFormat.groupOf(entries.key) < groups.first
        entries.seek(RunFormat.prefix(family, groups.last + 1))
        val after = atFamily(family)
        entries.status()
        !before && !after
      }
    } finally handles.close()
  }

  /** Opens a file without a cache: each block is read once, and a cache would take memory besides
    * the backend's.
    */
  private def open(file: File, handles: NativeHandles): SstFileReader = {
    val options = handles.add(new Options)
    options.setTableFormatConfig(new BlockBasedTableConfig().setNoBlockCache(true))
    val reader = handles.add(new SstFileReader(options))
    reader.open(file.getPath)
    reader
  }

  private final class Sink(writer: SstFileWriter) extends ChangeSink {
    val statistics = new RunStatistics
    private var storedKey = ByteBuffer.allocateDirect(InitialBuffer)
    private var storedValue = ByteBuffer.allocateDirect(InitialBuffer)

    override def add(
        family: Int,
        group: Int,
        key: Array[Byte],
        keyStart: Int,
        keyLength: Int,
        value: Array[Byte],
        valueStart: Int,
        valueLength: Int
    ): Unit = {
      storedKey = cleared(storedKey, RunFormat.PrefixLength + keyLength)
      storedKey.putShort(family.toShort).putShort(group.toShort).put(key, keyStart, keyLength)
      if (value == null) storedValue = cleared(storedValue, 1).put(RunFormat.Removed)
      else {
        storedValue = cleared(storedValue, 1 + valueLength)
        storedValue.put(RunFormat.Put).put(value, valueStart, valueLength)
      }
      writer.put(storedKey.flip(), storedValue.flip())
      statistics.add(group)
    }
  }

  private def cleared(buffer: ByteBuffer, capacity: Int): ByteBuffer =
    if (buffer.capacity >= capacity) buffer.clear()
    else ByteBuffer.allocateDirect(Math.max(capacity, buffer.capacity * 2))

  private final class SstCursor(
      file: File,
      families: Array[Int],
      groups: KeyGroupRange,
      corrupt: Exception => Exception
  ) extends RunCursor {
    private val handles = new NativeHandles
    private val entries: SstFileReaderIterator =
      try {
        val reader = open(file, handles)
        val readOptions = handles.add(new ReadOptions)
        readOptions.setReadaheadSize(2L * 1024 * 1024)
        handles.add(reader.newIterator(readOptions))
      } catch {
        case e: Throwable =>
          close()
          throw e
      }
    private var buffer = ByteBuffer.allocateDirect(InitialBuffer)
    private var family = -1
    private var upcoming: Change = _
    nextFamily()

    override def hasNext: Boolean = upcoming != null

    override def next(): Change = {
      val change = upcoming
      entries.next()
      read()
      change
    }

    override def close(): Unit = {
      handles.close()
      file.delete(): Unit
    }

    private def nextFamily(): Unit = {
      family += 1
      if (family == families.length) upcoming = null
      else {
        entries.seek(RunFormat.prefix(families(family), groups.first))
        read()
      }
    }

    private def read(): Unit =
      if (!entries.isValid) {
        try entries.status()
        catch { case e: RocksDBException => throw corrupt(e) }
        upcoming = null
      } else {
        val keyLength = fill(entries.key(_))
        if (keyLength < RunFormat.PrefixLength) throw incomplete()
        val familyId = buffer.getShort(0) & 0xffff
        val group = buffer.getShort(2) & 0xffff
        if (familyId != families(family) || group > groups.last) nextFamily()
        else {
          val key = copied(RunFormat.PrefixLength, keyLength)
          val valueLength = fill(entries.value(_))
          if (valueLength == 0) throw incomplete()
          val isRemoval = buffer.get(0) == RunFormat.Removed
          upcoming = Change(familyId, group, key, if (isRemoval) null else copied(1, valueLength))
        }
      }

    private def incomplete() = corrupt(new IOException("an entry has no key or flag"))

    /** Gets a key or value into the buffer; returns its length. */
    private def fill(get: ByteBuffer => Int): Int = {
      var length = get(buffer.clear())
      if (length > buffer.capacity) {
        buffer = cleared(buffer, length)
        length = get(buffer.clear())
      }
      length
    }

    private def copied(from: Int, until: Int): Array[Byte] = {
      val copy = new Array[Byte](until - from)
      buffer.get(from, copy)
      copy
    }
  }
}
