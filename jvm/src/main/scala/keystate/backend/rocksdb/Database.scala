package keystate.backend.rocksdb

import java.io.File
import java.util.{Collections, List => JList}

import scala.collection.mutable

import org.rocksdb.{
  BlockBasedTableConfig,
  BloomFilter,
  ColumnFamilyDescriptor,
  ColumnFamilyHandle,
  ColumnFamilyOptions,
  CompressionType,
  DBOptions,
  InfoLogLevel,
  IngestExternalFileOptions,
  ReadOptions,
  RocksDB,
  RocksDBException,
  WriteBatch,
  WriteOptions
}

import keystate.backend.{Change, RunFile}
import keystate.checkpoint.{LocalStorageException, RunFormat}

/** The RocksDB of one store: the entries of the loaded version, keyed and marked as in runs. It is
  * scratch: no write-ahead log, nothing is synced, and the folder goes with it.
  *
  * A run file can hold entries of key groups that its version does not take from it: after a
  * rescale. They must not hide those of another run, so the groups are cut into segments, each a
  * column family of RocksDB with the files of its groups, and a segment is only asked for its own
  * groups. Without such files there is one segment.
  */
private[rocksdb] final class Database(folder: File, config: RocksDBConfig) extends AutoCloseable {
  import Database._

  private val handles = new NativeHandles
  private val key = new NativeBuffer
  private val value = new NativeBuffer
  private val found = new NativeBuffer
  private val cursors = mutable.Set.empty[DatabaseCursor]
  private var closed = false

  private val (db, options, readOptions, scanOptions, writeOptions, memory, first) =
    try open()
    catch {
      case e: Throwable =>
        close()
        throw e
    }
  // By their first group.
  private var segments = Array(new Segment(0, first))

  /** The stored value, or null. */
  def get(family: Int, group: Int, entryKey: Array[Byte]): Array[Byte] = {
    val handle = segment(group).handle
    var buffer = found.cleared()
    var length = db.get(handle, readOptions, key.key(family, group, entryKey), buffer)
    if (length == RocksDB.NOT_FOUND) null
    else {
      if (length > buffer.capacity) {
        buffer = found.cleared(length)
        length = db.get(handle, readOptions, key.key(family, group, entryKey), buffer)
      }
      if (buffer.get(0) == RunFormat.Removed) null
      else {
        val bytes = new Array[Byte](length - 1)
        buffer.get(1, bytes)
        bytes
      }
    }
  }

  def contains(family: Int, group: Int, entryKey: Array[Byte]): Boolean = {
    val buffer = value.cleared(1).limit(1)
    val length =
      db.get(segment(group).handle, readOptions, key.key(family, group, entryKey), buffer)
    length != RocksDB.NOT_FOUND && buffer.get(0) != RunFormat.Removed
  }

  /** The entries of a family's group; bounds as for a scan of an ordered family. */
  def scan(
      family: Int,
      group: Int,
      start: Array[Byte],
      end: Array[Byte],
      reverse: Boolean
  ): DatabaseCursor = {
    val segment = this.segment(group)
    val iterator =
      if (segment.idle.isEmpty) db.newIterator(segment.handle, scanOptions)
      else segment.idle.removeLast()
    val cursor = new DatabaseCursor(iterator, segment, this, family, group, start, end, reverse)
    cursors += cursor
    cursor.open()
  }

  /** Takes a cursor's native iterator back, which is dear to make. Between two writes it can be used
    * again; it keeps files alive.
    */
  def release(cursor: DatabaseCursor): Unit = if (cursors.remove(cursor)) {
    if (cursor.madeAt == writes && cursor.segment.idle.size < MaxIdle)
      cursor.segment.idle.append(cursor.iterator)
    else cursor.iterator.close()
  }

  /** How often something was written: cursors made before do not see it. */
  var writes = 0L

  /** Cuts the groups into segments; before anything is stored. */
  def cut(firstGroups: Seq[Int]): Unit = segments ++= firstGroups.sorted.map { group =>
    new Segment(
      group,
      handles.add(
        db.createColumnFamily(new ColumnFamilyDescriptor(s"from $group".getBytes, options))
      )
    )
  }

  /** Takes over a run file; what it has counts before what is there. It is gone afterwards. */
  def ingest(run: RunFile): Unit = {
    val taking = segments.indices.filter { i =>
      val last = if (i + 1 < segments.length) segments(i + 1).firstGroup - 1 else Int.MaxValue
      segments(i).firstGroup <= run.groups.last && run.groups.first <= last
    }
    val ingestOptions = new IngestExternalFileOptions
    try {
      ingestOptions.setWriteGlobalSeqno(false)
      taking.foreach { i =>
        // Without a copy where nobody else needs the file.
        ingestOptions.setMoveFiles(i == taking.last)
        db.ingestExternalFile(
          segments(i).handle,
          Collections.singletonList(run.file.getPath),
          ingestOptions
        )
      }
    } finally {
      ingestOptions.close()
      run.file.delete()
      ()
    }
    written()
  }

  /** Stores entries; a removal leaves nothing but a tombstone of RocksDB, which goes by itself. */
  def write(changes: Iterator[Change]): Unit = if (changes.hasNext) {
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

  /** Deletes a family's groups from `first` until `end`. */
  def deleteGroups(family: Int, first: Int, end: Int): Unit =
    deleteRange(RunFormat.prefix(family, first), RunFormat.prefix(family, end))

  private def deleteRange(from: Array[Byte], until: Array[Byte]): Unit = {
    segments.foreach(segment => db.deleteRange(segment.handle, writeOptions, from, until))
    written()
  }

  /** Bytes in write buffers. */
  def memoryUsed: Long =
    segments.map(segment => db.getLongProperty(segment.handle, MemTables)).sum

  override def close(): Unit = if (!closed) {
    closed = true
    if (cursors != null) cursors.foreach(_.iterator.close())
    if (segments != null) segments.foreach(_.closeIdle())
    try handles.close()
    finally deleteFolder()
  }

  def isClosed: Boolean = closed

  private def written(): Unit = {
    writes += 1
    segments.foreach(_.closeIdle())
  }

  private def segment(group: Int): Segment = {
    var i = segments.length - 1
    while (segments(i).firstGroup > group) i -= 1
    segments(i)
  }

  private def open() = {
    NativeHandles.loadLibrary()
    val memory = handles.add(SharedMemory.acquire(config))
    val tables = new BlockBasedTableConfig()
      .setBlockCache(memory.cache)
      .setFilterPolicy(handles.add(new BloomFilter(BloomBits)))
      .setCacheIndexAndFilterBlocks(true)
      .setCacheIndexAndFilterBlocksWithHighPriority(true)
      .setPinL0FilterAndIndexBlocksInCache(true)
    val dbOptions = handles.add(new DBOptions)
    val families = handles.add(new ColumnFamilyOptions)
    dbOptions
      .setCreateIfMissing(true)
      .setWriteBufferManager(memory.writeBuffers)
      .setUseFsync(false)
      .setInfoLogLevel(InfoLogLevel.HEADER_LEVEL)
      .setStatsDumpPeriodSec(0)
    families
      .setCompressionType(CompressionType.LZ4_COMPRESSION)
      .setWriteBufferSize(WriteBufferBytes)
      // What an empty store takes of the shared memory; there can be hundreds.
      .setArenaBlockSize(ArenaBytes)
    config.predefined(dbOptions, families, tables)
    families.setTableFormatConfig(tables)
    val readOptions = handles.add(new ReadOptions)
    val scanOptions = handles.add(new ReadOptions)
    val writeOptions = handles.add(new WriteOptions).setDisableWAL(true)
    val opened = new java.util.ArrayList[ColumnFamilyHandle]
    val descriptors: JList[ColumnFamilyDescriptor] = Collections.singletonList(
      new ColumnFamilyDescriptor(RocksDB.DEFAULT_COLUMN_FAMILY, families)
    )
    val db =
      try handles.add(RocksDB.open(dbOptions, folder.getPath, descriptors, opened))
      catch { case e: RocksDBException => throw new LocalStorageException(folder, e) }
    val first = handles.add(opened.get(0))
    (db, families, readOptions, scanOptions, writeOptions, memory, first)
  }

  private def deleteFolder(): Unit = {
    Option(folder.listFiles).foreach(_.foreach(_.delete()))
    folder.delete()
    ()
  }
}

private[rocksdb] object Database {
  private final val MemTables = "rocksdb.cur-size-all-mem-tables"
  private final val BloomBits = 10.0
  private final val WriteBufferBytes = 32L << 20
  private final val ArenaBytes = 256L << 10
  private final val BatchBytes = 1L << 20
  private final val MaxIdle = 16

  final class Segment(val firstGroup: Int, val handle: ColumnFamilyHandle) {
    val idle = mutable.ArrayDeque.empty[org.rocksdb.RocksIterator]

    def closeIdle(): Unit = {
      idle.foreach(_.close())
      idle.clear()
    }
  }
}
