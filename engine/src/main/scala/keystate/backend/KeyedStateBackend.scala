package keystate.backend

import java.io.File

import keystate.keygroup.KeyGroupRange

/** The access pattern of a state's entries. It decides which table holds them in memory. Version
  * files contain the name.
  */
sealed abstract class Layout(val name: String)

object Layout {

  /** One entry for each key, found by the whole key, in no order: value state. */
  case object Point extends Layout("point")

  /** Many entries for each key: the entry key is `[int32 big-endian n][n bytes: key][user key]`,
    * and the entries of one key are together, in bytewise order of their user key: list, map,
    * sorted map.
    */
  case object Grouped extends Layout("grouped")

  /** Entries in bytewise order within a key group: timers, broadcast and operator state, and
    * Spark's prefix and range scans.
    */
  case object Ordered extends Layout("ordered")

  /** Every layout. */
  val all: Seq[Layout] = Seq(Point, Grouped, Ordered)

  /** The layout of this name; throws IllegalArgumentException when there is none. */
  def byName(name: String): Layout = all
    .find(_.name == name)
    .getOrElse(throw new IllegalArgumentException(s"unknown state layout '$name'"))
}

/** One named state of a store, as far as a backend knows it.
  *
  * @param id
  *   0 to 65535; part of every stored key, and never used again for another state
  * @param properties
  *   the state owner's own data, for instance kind and schema; the backend does not read them
  */
final case class StateFamily(
    id: Int,
    name: String,
    layout: Layout,
    properties: Map[String, String] = Map.empty
)

/** A key and its value, both as stored. Neither is null, and neither may be changed. */
final class Entry(val key: Array[Byte], val value: Array[Byte])

/** Entries of one key group, in the bytewise (unsigned) order of their keys unless the method that
  * made it says otherwise. Close it when it was not read to its end. Changes made while iterating
  * are allowed; whether the iterator shows them is undefined unless the method that made it says
  * so.
  */
trait EntryIterator extends Iterator[Entry] with AutoCloseable

/** The entries of states: what every state type is written over. A state is addressed by its family
  * id, an entry by key group and key. The group after the last key group, number `maxParallelism`,
  * is the operator group: entries of the subtask and not of a key.
  *
  * Byte arrays handed in or out are not copied and must not be changed afterwards. One thread at a
  * time.
  */
trait StateEntries {

  /** The entry's value; null when there is none. */
  def get(family: Int, group: Int, key: Array[Byte]): Array[Byte]

  /** Sets the first `count` of `values` to the values of the first `count` keys, null where there
    * is none; key i is in group `groups(i)`.
    */
  def multiGet(
      family: Int,
      groups: Array[Int],
      keys: Array[Array[Byte]],
      values: Array[Array[Byte]],
      count: Int
  ): Unit

  /** Makes or replaces an entry. The value is not null. */
  def put(family: Int, group: Int, key: Array[Byte], value: Array[Byte]): Unit

  /** Removes an entry; that there is none is no error. */
  def remove(family: Int, group: Int, key: Array[Byte]): Unit

  /** Removes an entry; returns whether there was one. */
  def take(family: Int, group: Int, key: Array[Byte]): Boolean = {
    val isThere = get(family, group, key) != null
    if (isThere) remove(family, group, key)
    isThere
  }

  /** Entries of a group from `start` (inclusive; null: from the first) to `end` (exclusive; null:
    * to the last). On a `Grouped` family both bounds belong to the same key, and a null `end` stops
    * after that key's entries. On a `Point` family both must be null, and the order is undefined.
    */
  def scan(family: Int, group: Int, start: Array[Byte], end: Array[Byte]): EntryIterator

  /** Like [[scan]], from the last entry to the first. Not for `Point` families. */
  def scanReverse(family: Int, group: Int, start: Array[Byte], end: Array[Byte]): EntryIterator
}

/** The working copy of one store's state, which a state backend implements.
  *
  * It has one transaction at a time: all changes since the last `changesCommitted` or `rollback`.
  * Reads see these changes. The backend's data need not outlive the backend: versions are loaded
  * into it, and its changes are written to runs.
  *
  * One thread at a time; the owner of the backend does the locking.
  */
trait KeyedStateBackend extends StateEntries with AutoCloseable {

  /** Adds a family, before any of its entries. A family with a known id stays as it is. Part of the
    * transaction: a rollback removes the family.
    */
  def register(family: StateFamily): Unit

  /** Forgets a family and all its entries. Part of the transaction: a rollback brings them back.
    * The entries are no changes; the next manifest just has no such family.
    */
  def drop(familyId: Int): Unit

  /** Takes over entries of committed runs, one run after the other: like `put`, or `remove` where
    * the value is null, but not as changes.
    *
    * @param expected
    *   how many entries a group of a family will have. It only serves to make room for them
    */
  def loader(expected: (Int, Int) => Long): ChangeSink

  /** The number of the family's entries in all groups. A backend that was restored from files may
    * still count entries that had expired before the restore.
    */
  def count(family: Int): Long

  /** The number of the family's entries in one group. */
  def count(family: Int, group: Int): Long

  /** Estimate of the memory held, in bytes. */
  def memoryUsed: Long

  /** Passes the changes since the last `changesCommitted` or `rollback` to the sink, ordered by
    * `[family][group][key]`: the content of the next run. The sink may throw to stop.
    */
  def writeChanges(sink: ChangeSink): Unit

  /** The number of entries that `writeChanges` would pass. */
  def changeCount: Long

  /** Ends the transaction and keeps its changes: they are in a committed run, or were loaded from
    * one.
    */
  def changesCommitted(): Unit

  /** Ends the transaction and undoes its changes. */
  def rollback(): Unit
}

/** One changed entry; its value is null if it was removed. */
final case class Change(family: Int, group: Int, key: Array[Byte], value: Array[Byte])

/** A backend that reads the entries of a key group when it first needs one of them, so that loading
  * a version does not read every entry.
  */
trait LoadsOnDemand { self: KeyedStateBackend =>

  /** Sets the source of a family's committed entries in some groups. It must be called before any
    * other access to these groups.
    */
  def loadOnDemand(family: Int, source: GroupSource): Unit
}

/** The entries of one family in one key group, in the memory of a backend. */
trait GroupEntries

/** A backend whose entries in memory can move to the next backend of its kind, which saves a load.
  */
trait HandsOver { self: KeyedStateBackend =>

  /** Hands over the loaded entries of these groups, by family and group. No transaction may be
    * open, and only `close` may follow.
    */
  def handOver(groups: KeyGroupRange): Map[(Int, Int), GroupEntries]

  /** Takes over all entries of a family in a group. It comes before anything else is done with the
    * group.
    */
  def takeOver(family: Int, group: Int, entries: GroupEntries): Unit
}

/** Entries of one family that a backend can ask for. The backend closes it when it is closed. */
trait GroupSource extends AutoCloseable {

  /** The groups it has, in pieces that are loaded whole. */
  def pieces: Seq[KeyGroupRange]

  /** The number of entries in a group. */
  def count(group: Int): Long

  /** Hands over the entries of a piece: for each one its changes, oldest first, removals too. May
    * be called again where it has thrown.
    */
  def load(piece: KeyGroupRange, sink: ChangeSink): Unit
}

/** A backend that takes over run files whole. Others get each entry by a `loader`. */
trait RestoresFromFiles { self: KeyedStateBackend =>

  /** Takes over a version's runs. Called after the version's families are registered and before any
    * other call.
    *
    * @param runs
    *   oldest first: of two entries with one key, the later run's entry counts
    * @param groups
    *   the store's key groups; the operator group is included without being listed
    * @param count
    *   the number of entries in a group of a family
    */
  def restore(runs: Seq[RestoredRun], groups: KeyGroupRange, count: (Int, Int) => Long): Unit

  /** Like `changesCommitted()`, for changes that are the content of this local SST file. The
    * backend may move the file away; otherwise the caller deletes it.
    */
  def changesCommitted(run: File): Unit
}

/** A run of a version that is restored. */
sealed trait RestoredRun

/** A run in a local SST file, which the backend may move away. It may hold entries that do not
  * belong to the version: families that are not registered, and groups that are not in `groups`.
  * Reads must not see these entries.
  *
  * @param isWhole
  *   whether the file has no other groups than `groups`
  */
final case class RunFile(file: File, groups: KeyGroupRange, isWhole: Boolean) extends RestoredRun

/** A run that is not in an SST file: its changes in their order, to be read once. The caller closes
  * them.
  */
final case class RunEntries(changes: Iterator[Change] with AutoCloseable) extends RestoredRun
