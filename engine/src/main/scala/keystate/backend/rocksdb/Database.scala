package keystate.backend.rocksdb

import java.io.{File, IOException}
import java.nio.ByteBuffer
import java.nio.file.Files
import java.util.Arrays

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.rocksdb.KeyMayExist.KeyMayExistEnum
import org.rocksdb.{
  ColumnFamilyDescriptor, ColumnFamilyHandle, ColumnFamilyOptions, CompressionType, DBOptions,
  DataBlockIndexType, InfoLogLevel, IngestExternalFileOptions, ReadOptions, RocksDB,
  RocksDBException, Status, WriteBatch, WriteOptions
}

import keystate.backend.rocksdb.DatabaseCursor.Position
import keystate.backend.{Change, RunFile, RunFormat}
import keystate.errors.LocalStorageException
import keystate.files.LocalFolder

/** The RocksDB database of one store. It has the entries of the loaded version, with keys and marks
  * as in runs. It is scratch space: it has no write-ahead log, and closing it deletes its folder.
  * It is opened on first use.
  *
  * After a rescale a run file can hold entries of key groups that do not belong to its version.
  * These entries must not hide the entries of another run. So the groups are divided into segments.
  * A segment is a RocksDB column family with the files of its groups, and reads of it ask only for
  * its own groups. Without such files there is one segment.
  */
private[rocksdb] final class Database(folder: File, config: RocksDBConfig) extends AutoCloseable {
  import Database._

  private val handles = new NativeHandles
  private val key = new NativeBuffer
  private val value = new NativeBuffer
  private val found = new NativeBuffer
  private val cursors = mutable.Set.empty[DatabaseCursor]
  private var closed = false
  // Whether the last lookup found no entry; see `find`.
  private var missed = false

  NativeHandles.loadLibrary()
  private val memory = handles.add(SharedMemory.acquire(config))
  private val filterMemory = handles.add(memory.filters.share())
  private val recentMemory = handles.add(memory.recent.share())
  private val readOptions = handles.add(new ReadOptions)
  private val scanOptions = handles.add(new ReadOptions)
  // This iterator reads entries that no lookup may ask for.
  private val keyOptions = handles.add(new ReadOptions).setFillCache(false)
  private val writeOptions = handles.add(new WriteOptions).setDisableWAL(true)
  private var firstGroups = Seq(0)
  private var restored = 0
  private var opened: Opened = _

  /** The stored value. Null if there is none. */
  def get(family: Int, group: Int, entryKey: Array[Byte]): Array[Byte] = {
    var buffer = found.cleared()
    var length = find(family, group, entryKey, buffer)
    if (length > buffer.capacity) {
      buffer = found.cleared(length)
      length = find(family, group, entryKey, buffer)
    }
    if (length == RocksDB.NOT_FOUND) null else NativeBuffer.valueOf(buffer, length)
  }

  /** Sets the values at the first `count` of `indexes` to those of the keys there. */
  def multiGet(
      family: Int,
      groups: Array[Int],
      keys: Array[Array[Byte]],
      values: Array[Array[Byte]],
      indexes: Array[Int],
      count: Int
  ): Unit = {
    def getAlone(index: Int): Unit = values(index) = get(family, groups(index), keys(index))
    if (count < KeyBatch.MinKeys) indexes.iterator.take(count).foreach(getAlone)
    else {
      val batch = KeyBatch.ofThread()
      var i = 0
      while (i < count) {
        val index = indexes(i)
        val group = groups(index)
        if (!batch.add(segment(group).handle, family, group, keys(index), index)) getAlone(index)
        if (batch.isFull) batch.get(db, readOptions, values)(getAlone)
        i += 1
      }
      if (!batch.isEmpty) batch.get(db, readOptions, values)(getAlone)
    }
  }

  def contains(family: Int, group: Int, entryKey: Array[Byte]): Boolean = {
    val buffer = value.cleared(1).limit(1)
    find(family, group, entryKey, buffer) != RocksDB.NOT_FOUND &&
    buffer.get(0) != RunFormat.Removed
  }

  /** Copies a value into the buffer, up to the buffer's size. Returns the value's length, or
    * `NOT_FOUND`. `get` is the fastest call for an existing entry, but a missing one costs an
    * exception in native code. Lookups in a row usually have the same result: either all keys are
    * new, or all exist. So after a miss the next lookup uses `findInMemory`.
    */
  private def find(family: Int, group: Int, entryKey: Array[Byte], into: ByteBuffer): Int = {
    val length =
      if (missed) findInMemory(family, group, entryKey, into)
      else read(family, group, entryKey, into)
    missed = length == RocksDB.NOT_FOUND
    length
  }

  /** Does the same as `find`, but reads from disk only if memory does not have the answer. */
  private def findInMemory(
      family: Int,
      group: Int,
      entryKey: Array[Byte],
      into: ByteBuffer
  ): Int = {
    val room = into.limit()
    val entry =
      db.keyMayExist(segment(group).handle, readOptions, key.key(family, group, entryKey), into)
    entry.exists match {
      case KeyMayExistEnum.kNotExist => RocksDB.NOT_FOUND
      // Empty if RocksDB would have to read a file's index. A stored value is never empty: it has a
      // mark.
      case KeyMayExistEnum.kExistsWithValue if entry.valueLength > 0 => entry.valueLength
      case _ => read(family, group, entryKey, into.clear().limit(room))
    }
  }

  private def read(family: Int, group: Int, entryKey: Array[Byte], into: ByteBuffer): Int =
    db.get(segment(group).handle, readOptions, key.key(family, group, entryKey), into)

  /** The entries of a family's group. The bounds are as for a scan of an ordered family. */
  def scan(
      family: Int,
      group: Int,
      start: Array[Byte],
      end: Array[Byte],
      reverse: Boolean
  ): DatabaseCursor = {
    val segment = this.segment(group)
    val position =
      if (segment.idle.isEmpty) new Position(db.newIterator(segment.handle, scanOptions))
      else segment.idle.removeLast()
    val cursor = new DatabaseCursor(position, segment, this, family, group, start, end, reverse)
    cursors += cursor
    try cursor.open()
    catch {
      case e: Throwable =>
        cursor.close()
        throw e
    }
  }

  /** A filter for a family's keys. */
  def newFilter(family: Int): FamilyFilter =
    new FamilyFilter(filterMemory, readKeys(family, _)(_))

  /** Makes the container for a family's recent entries. */
  def newRecentEntries(): RecentEntries = new RecentEntries(recentMemory)

  /** Passes on the keys of a family's group, without keys that are marked as removed: run files can
    * contain many more of these.
    */
  private def readKeys(family: Int, group: Int)(take: Array[Byte] => Unit): Unit = {
    val iterator = db.newIterator(segment(group).handle, keyOptions)
    try {
      iterator.seek(RunFormat.prefix(family, group))
      var inGroup = true
      while (inGroup && iterator.isValid) {
        val stored = iterator.key
        inGroup = RunFormat.familyOf(stored) == family && RunFormat.groupOf(stored) == group
        if (inGroup) {
          val mark = value.cleared(1).limit(1)
          iterator.value(mark)
          if (mark.get(0) != RunFormat.Removed)
            take(Arrays.copyOfRange(stored, RunFormat.PrefixLength, stored.length))
          iterator.next()
        }
      }
      // Not at its end: it could not read.
      iterator.status()
    } finally iterator.close()
  }

  /** Takes back a cursor's position. It can be used again until the next write, and is closed then,
    * because it keeps files alive.
    */
  def release(cursor: DatabaseCursor): Unit = if (cursors.remove(cursor))
    if (cursor.madeAt == writes && cursor.segment.idle.size < MaxIdle)
      cursor.segment.idle.append(cursor.position)
    else cursor.position.close()

  /** The number of writes so far. A cursor does not see writes after it was made. */
  var writes = 0L

  /** Cuts the groups into segments, and makes ready for so many files. Must be called before anything
    * else.
    */
  def prepare(cuts: Seq[Int], files: Int): Unit = {
    require(opened == null, "the database is open")
    firstGroups ++= cuts.sorted
    restored = files
  }

  /** Takes over run files, oldest first. Their entries replace existing ones. Afterwards the files
    * no longer exist.
    */
  def ingest(runs: Seq[RunFile]): Unit = onDisk {
    val options = new IngestExternalFileOptions
    try {
      options.setWriteGlobalSeqno(false).setMoveFiles(true)
      segments.foreach { segment =>
        val files = runs.filter(segment.takes).map { run =>
          if (segments.findLast(_.takes(run)).contains(segment)) run.file
          else secondName(run.file, segment)
        }
        if (files.nonEmpty)
          db.ingestExternalFile(segment.handle, files.map(_.getPath).asJava, options)
      }
    } finally {
      options.close()
      runs.foreach(_.file.delete())
    }
    written()
  }

  /** Stores changes. A removal leaves only a RocksDB tombstone, which compaction removes. */
  def write(changes: Iterator[Change]): Unit = if (changes.hasNext) onDisk {
    val batch = new WriteBatch
    try {
      changes.foreach { change =>
        val handle = segment(change.group).handle
        val entryKey = key.key(change.family, change.group, change.key)
        if (change.value == null) batch.delete(handle, entryKey)
        else batch.put(handle, entryKey, value.value(change.value))
        if (batch.getDataSize > BatchBytes) {
          db.write(writeOptions, batch)
          batch.clear()
        }
      }
      if (batch.count > 0) db.write(writeOptions, batch)
    } finally batch.close()
    written()
  }

  def deleteFamily(family: Int): Unit =
    deleteRange(RunFormat.prefix(family, 0), RunFormat.prefix(family + 1, 0))

  /** Deletes a family's groups from `first` (inclusive) to `end` (exclusive). */
  def deleteGroups(family: Int, first: Int, end: Int): Unit =
    deleteRange(RunFormat.prefix(family, first), RunFormat.prefix(family, end))

  private def deleteRange(from: Array[Byte], until: Array[Byte]): Unit = onDisk {
    segments.foreach(segment => db.deleteRange(segment.handle, writeOptions, from, until))
    written()
  }

  /** The number of bytes in write buffers, filters and recent entries. */
  def memoryUsed: Long =
    segments.map(segment => db.getLongProperty(segment.handle, MemTables)).sum +
      filterBytes + recentMemory.takenBytes

  def filterBytes: Long = filterMemory.takenBytes

  override def close(): Unit = if (!closed) {
    closed = true
    cursors.foreach(_.position.close())
    if (opened != null) opened.segments.foreach(_.closeIdle())
    try handles.close()
    finally deleteFolder()
  }

  def isClosed: Boolean = closed

  /** Reports RocksDB's failed writes as errors of the disk. RocksDB also writes in the background,
    * so the error may come with a later change, for which alone there would have been room.
    */
  private def onDisk(write: => Unit): Unit =
    try write
    catch {
      case e: RocksDBException if Option(e.getStatus).exists(_.getCode == Status.Code.IOError) =>
        throw new LocalStorageException(folder, e)
    }

  private def written(): Unit = {
    writes += 1
    segments.foreach(_.closeIdle())
  }

  private def segment(group: Int): Segment = {
    val segments = this.segments
    var i = segments.length - 1
    while (segments(i).firstGroup > group) i -= 1
    segments(i)
  }

  private def db: RocksDB = whenOpen.db

  /** The segments, ordered by their first group. */
  private def segments: Array[Segment] = whenOpen.segments

  private def whenOpen: Opened = {
    if (opened == null) opened = open()
    opened
  }

  private def open(): Opened = {
    val tables = TableFormat(handles)
      .setBlockCache(memory.cache)
      .setCacheIndexAndFilterBlocks(true)
      .setCacheIndexAndFilterBlocksWithHighPriority(true)
      // Only the top level is pinned: there is no bound on the number of files in level 0 of all
      // stores.
      .setPinTopLevelIndexAndFilter(true)
      .setDataBlockIndexType(DataBlockIndexType.kDataBlockBinaryAndHash)
      .setDataBlockHashTableUtilRatio(HashTableRatio)
    val dbOptions = handles.add(new DBOptions)
    val families = handles.add(new ColumnFamilyOptions)
    dbOptions
      .setCreateIfMissing(true)
      .setCreateMissingColumnFamilies(true)
      .setWriteBufferManager(memory.writeBuffers)
      .setUseFsync(false)
      .setInfoLogLevel(InfoLogLevel.HEADER_LEVEL)
      .setStatsDumpPeriodSec(0)
      // Nobody will read the data. Without this, closing could wait for compactions that serve
      // nobody.
      .setAvoidFlushDuringShutdown(true)
      // A new database has no files that threads could open.
      .setMaxFileOpeningThreads(1)
      // Otherwise each database takes 4 MiB of disk for its list of files immediately.
      .setManifestPreallocationSize(ManifestBytes)
    families
      .setCompressionType(CompressionType.LZ4_COMPRESSION)
      .setWriteBufferSize(WriteBufferBytes)
      // The shared memory that an empty store takes. It is small, because there can be hundreds of
      // stores.
      .setArenaBlockSize(ArenaBytes)
      // Files that are taken over may all be in level 0. Or with many of them the first commit would
      // wait until RocksDB has compacted the whole store.
      .setLevel0SlowdownWritesTrigger(restored + SlowdownFiles)
      .setLevel0StopWritesTrigger(restored + StopFiles)
    config.predefined(dbOptions, families, tables)
    families.setTableFormatConfig(tables)
    // Opens all column families together: adding one later is as expensive as opening the database.
    val descriptors = firstGroups.map { group =>
      val name = if (group == 0) RocksDB.DEFAULT_COLUMN_FAMILY else s"from $group".getBytes
      new ColumnFamilyDescriptor(name, families)
    }
    val made = new java.util.ArrayList[ColumnFamilyHandle]
    EmptyDatabase.copyTo(folder)
    val db =
      try handles.add(RocksDB.open(dbOptions, folder.getPath, descriptors.asJava, made))
      catch { case e: RocksDBException => throw new LocalStorageException(folder, e) }
    made.forEach { handle => handles.add(handle); () }
    if (made.size == 1) EmptyDatabase.learnFrom(folder)
    val lastGroups = firstGroups.drop(1).map(_ - 1) :+ Int.MaxValue
    val segments = firstGroups.zip(lastGroups).zip(made.asScala).map {
      case ((first, last), handle) => new Segment(first, last, handle)
    }
    new Opened(db, segments.toArray)
  }

  private def secondName(file: File, segment: Segment): File = {
    val name = new File(folder, s"${segment.firstGroup}-${file.getName}")
    if (!LocalFolder.link(file.toPath, name.toPath))
      try Files.copy(file.toPath, name.toPath)
      catch { case e: IOException => throw new LocalStorageException(name, e) }
    name
  }

  private def deleteFolder(): Unit = {
    Option(folder.listFiles).foreach(_.foreach(_.delete()))
    folder.delete(): Unit
  }
}

private[rocksdb] object Database {
  private final val MemTables = "rocksdb.cur-size-all-mem-tables"
  private final val WriteBufferBytes = 32L << 20
  private final val ArenaBytes = 256L << 10
  private final val ManifestBytes = 64L << 10
  private final val HashTableRatio = 0.75

  /** RocksDB's default numbers of files in level 0 at which it slows down and stops writes. */
  private final val SlowdownFiles = 20
  private final val StopFiles = 36
  private final val BatchBytes = 1L << 20
  private final val MaxIdle = 16

  private final class Opened(val db: RocksDB, val segments: Array[Segment])

  final class Segment(val firstGroup: Int, lastGroup: Int, val handle: ColumnFamilyHandle) {
    val idle = mutable.ArrayDeque.empty[Position]

    def takes(run: RunFile): Boolean =
      firstGroup <= run.groups.last && run.groups.first <= lastGroup

    def closeIdle(): Unit = {
      idle.foreach(_.close())
      idle.clear()
    }
  }
}
