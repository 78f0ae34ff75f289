package keystate.backend.rocksdb

import java.io.File

import scala.annotation.tailrec

import keystate.backend.{
  BytewiseOrder, Change, ChangeSink, EntryIterator, FamilyTables, GroupedKey, KeyedStateBackend,
  Layout, RestoredRun, RestoresFromFiles, RunEntries, RunFile, StateFamily
}
import keystate.keygroup.{KeyGroupRange, KeyGroups}

/** The backend `rocksdb`: state in RocksDB, on local disk and in native memory that all stores of
  * the JVM share. The heap holds only the open transaction's changes, and filters of the keys in
  * RocksDB. The changes become the next run. A commit writes them to RocksDB, and a rollback drops
  * them.
  *
  * @param folder
  *   an empty folder, which is deleted on close
  */
final class EmbeddedRocksDBStateBackend private[rocksdb] (
    maxParallelism: Int,
    folder: File,
    config: RocksDBConfig
) extends KeyedStateBackend
    with RestoresFromFiles {
  import EmbeddedRocksDBStateBackend._

  private val database = new Database(folder, config)
  private val tables = new FamilyTables(new FamilyChanges(_, database), () => checkOpen())

  override def register(family: StateFamily): Unit = tables.register(family)

  override def drop(familyId: Int): Unit = tables.drop(familyId)

  override def get(family: Int, group: Int, key: Array[Byte]): Array[Byte] =
    tables(family).get(group, key)

  override def multiGet(
      family: Int,
      groups: Array[Int],
      keys: Array[Array[Byte]],
      values: Array[Array[Byte]],
      count: Int
  ): Unit = tables(family).multiGet(groups, keys, values, count)

  override def put(family: Int, group: Int, key: Array[Byte], value: Array[Byte]): Unit =
    tables(family).put(group, key, value)

  override def remove(family: Int, group: Int, key: Array[Byte]): Unit =
    tables(family).remove(group, key)

  /** Only for single entries. `restore` loads versions. */
  override def loader(expected: (Int, Int) => Long): ChangeSink = ChangeSink.ofChanges { change =>
    val existed = database.contains(change.family, change.group, change.key)
    database.write(Iterator.single(change))
    val more = (if (change.value == null) 0L else 1L) - (if (existed) 1L else 0L)
    tables(change.family).restored(change.group, more)
  }

  override def restore(
      runs: Seq[RestoredRun],
      groups: KeyGroupRange,
      count: (Int, Int) => Long
  ): Unit = {
    // Bounds of the groups that are taken from run files which have more groups than that. If there
    // are such files, the operator group is always cut off too: it is not next to the others.
    val partial = runs.collect { case RunFile(_, taken, false) => taken }
    val bounds = partial.flatMap(taken => Seq(taken.first, taken.last + 1)).distinct
    val operatorGroup = KeyGroups.operatorGroup(maxParallelism)
    database.prepare(
      bounds.filter(g => groups.first < g && g <= groups.last) ++
        Option.when(partial.nonEmpty)(operatorGroup),
      runs.count(_.isInstanceOf[RunFile])
    )
    restore(runs.toList)
    tables.all.foreach { table =>
      val id = table.family.id
      if (partial.nonEmpty) {
        database.deleteGroups(id, 0, groups.first)
        database.deleteGroups(id, groups.last + 1, maxParallelism)
      }
      (groups.first to groups.last).foreach(group => table.restored(group, count(id, group)))
      table.restored(operatorGroup, count(id, operatorGroup))
    }
  }

  override def scan(family: Int, group: Int, start: Array[Byte], end: Array[Byte]): EntryIterator =
    scan(tables(family), group, start, end, reverse = false)

  override def scanReverse(
      family: Int,
      group: Int,
      start: Array[Byte],
      end: Array[Byte]
  ): EntryIterator = scan(tables(family), group, start, end, reverse = true)

  override def count(family: Int): Long = tables(family).count

  override def count(family: Int, group: Int): Long = tables(family).count(group)

  override def memoryUsed: Long = database.memoryUsed + tables.all.map(_.bytes).sum

  override def writeChanges(sink: ChangeSink): Unit = sink.addAll(changes)

  private def changes: Iterator[Change] = tables.all.flatMap(_.changes())

  override def changeCount: Long = tables.all.map(_.changeCount).sum

  override def changesCommitted(): Unit = committed {
    if (changeCount > 0) database.write(changes)
  }

  override def changesCommitted(run: File): Unit =
    if (run.length < MinIngestBytes) changesCommitted()
    else
      committed {
        database.ingest(Seq(RunFile(run, KeyGroupRange(0, maxParallelism), isWhole = true)))
        // RocksDB drops tombstones when it compacts. The run's removals would stay.
        tables.all.filter(_.hasRemovals).foreach { table =>
          database.write(table.changes().filter(_.value == null))
        }
      }

  private def committed(store: => Unit): Unit = {
    tables.droppedTables.foreach { table =>
      database.deleteFamily(table.family.id)
      table.close()
    }
    tables.all.foreach(_.filterChanges())
    store
    tables.all.foreach(_.changesCommitted())
    tables.commit()
  }

  override def rollback(): Unit = {
    tables.rollback()
    tables.all.foreach(_.rollback())
  }

  override def close(): Unit = {
    tables.clear()
    database.close()
  }

  private def scan(
      entries: FamilyChanges,
      group: Int,
      start: Array[Byte],
      end: Array[Byte],
      reverse: Boolean
  ): EntryIterator = {
    val oneKey = entries.family.layout == Layout.Grouped && (start != null || end != null)
    val first = if (oneKey && start == null) GroupedKey.prefixOf(end) else start
    val last = if (oneKey && end == null) BytewiseOrder.after(GroupedKey.prefixOf(start)) else end
    val changes = entries.range(group, first, last, reverse)
    val stored =
      if (reverse || first == null || last == null)
        database.scan(entries.family.id, group, first, last, reverse)
      else entries.stored(group, first, last)
    val writes = database.writes
    // An iterator from before the last commit may return entries that no longer exist.
    new MergedScan(stored, changes, reverse, () => checkOpen())(key =>
      if (database.writes == writes) entries.scanned(group, key)
    )
  }

  /** Passes all consecutive files to RocksDB in one call, because each call waits for the disk. */
  @tailrec
  private def restore(runs: List[RestoredRun]): Unit = runs match {
    case Nil =>
    case RunEntries(changes) :: rest =>
      database.write(changes)
      restore(rest)
    case _ =>
      val (files, rest) = runs.span(_.isInstanceOf[RunFile])
      database.ingest(files.collect { case file: RunFile => file })
      restore(rest)
  }

  private def checkOpen(): Unit =
    if (database.isClosed) throw new IllegalStateException("the state backend is closed")
}

private object EmbeddedRocksDBStateBackend {

  /** Smaller runs are written entry by entry: each ingested file is one more to look into. */
  private final val MinIngestBytes = 512L * 1024
}
