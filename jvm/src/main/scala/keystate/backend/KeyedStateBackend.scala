package keystate.backend

import java.io.File

import keystate.keygroup.KeyGroupRange

/** How the entries of a state are found, which decides the table that holds them in memory. */
sealed abstract class Layout(val name: String)

object Layout {

  /** One entry per key, found by its whole key: value state. */
  case object Point extends Layout("point")

  /** Many entries per key: the entry key is `[int32 big-endian n][n bytes: key][user key]`, and the
    * entries of one key are together, in bytewise order of their user key: list, map, sorted map.
    */
  case object Grouped extends Layout("grouped")

  /** Entries in bytewise order within a key group: Spark's prefix and range scans. */
  case object Ordered extends Layout("ordered")

  val all: Seq[Layout] = Seq(Point, Grouped, Ordered)

  def byName(name: String): Layout = all
    .find(_.name == name)
    .getOrElse(throw new IllegalArgumentException(s"unknown state layout '$name'"))
}

/** One named state of a store. Its id is part of every stored key and never reused.
  *
  * @param properties
  *   what the owner of the state wants to find again, for instance its kind and schema
  */
final case class StateFamily(
    id: Int,
    name: String,
    layout: Layout,
    properties: Map[String, String] = Map.empty
)

/** A key and its value, both as stored. */
final class Entry(val key: Array[Byte], val value: Array[Byte])

/** Entries in bytewise (unsigned) order of their keys within a key group. Close it when it was not
  * read to its end. Changes made while iterating are allowed; whether the iterator shows them is
  * undefined unless the method that made it says so.
  */
trait EntryIterator extends Iterator[Entry] with AutoCloseable

/** The entries of states: what every state type is written over. A state is addressed by its family
  * id, an entry by key group and key. Byte arrays handed in or out are not copied and must not be
  * changed afterwards.
  */
trait StateEntries {

  /** The value, or null. */
  def get(family: Int, group: Int, key: Array[Byte]): Array[Byte]

  /** The values of `count` keys into `values`, null where absent; one call into the backend. */
  def multiGet(
      family: Int,
      groups: Array[Int],
      keys: Array[Array[Byte]],
      values: Array[Array[Byte]],
      count: Int
  ): Unit

  def put(family: Int, group: Int, key: Array[Byte], value: Array[Byte]): Unit

  def remove(family: Int, group: Int, key: Array[Byte]): Unit

  /** Entries of a group from `start` (inclusive; null: from the first) to `end` (exclusive; null: to
    * the last). On a `Grouped` family both bounds belong to the same key, and a null `end` stops
    * after that key's entries. On a `Point` family both must be null, and the order is undefined.
    */
  def scan(family: Int, group: Int, start: Array[Byte], end: Array[Byte]): EntryIterator

  /** Like [[scan]], from the last entry to the first. Not for `Point` families. */
  def scanReverse(family: Int, group: Int, start: Array[Byte], end: Array[Byte]): EntryIterator
}

/** The working copy of one store's state: what a state backend implements.
  *
  * One writer at a time; the owner of the backend does the locking.
  */
trait KeyedStateBackend extends StateEntries with AutoCloseable {

  /** Makes a family known; again with an equal one is harmless. */
  def register(family: StateFamily): Unit

  /** Forgets a family and all its entries. */
  def drop(familyId: Int): Unit

  /** Takes over an entry of a committed run: like `put`, or `remove` where the value is null, but not
    * a change.
    */
  def load(family: Int, group: Int, key: Array[Byte], value: Array[Byte]): Unit

  /** How many entries the family holds in all groups. A backend that was restored from files may
    * still count entries whose time to live ended before that.
    */
  def count(family: Int): Long

  /** How many of them one group has. */
  def count(family: Int, group: Int): Long

  /** Estimate of the memory held, in bytes. */
  def memoryUsed: Long

  /** Hands out what was changed since the last `changesCommitted` or `rollback`, ordered by
    * `[family][group][key]`: the content of the next run. The sink may throw, to have no more.
    */
  def writeChanges(sink: ChangeSink): Unit

  /** How many entries were changed since then. */
  def changeCount: Long

  /** Keeps the changes: they are in a committed run now. */
  def changesCommitted(): Unit

  /** Undoes the changes. */
  def rollback(): Unit
}

/** One changed entry; a null value says that it was removed. */
final case class Change(family: Int, group: Int, key: Array[Byte], value: Array[Byte])

/** A backend that takes over run files whole, so that loading a version does not read every entry.
  * Others get each entry by `load`.
  */
trait RestoresFromFiles { self: KeyedStateBackend =>

  /** Takes over a version's runs, oldest first, before anything else is done with the backend.
    *
    * @param groups
    *   the store's key groups; the operator group is its own too
    * @param entryCounts
    *   by family id, how many entries a group has; without the families of which that was not recorded
    */
  def restore(
      runs: Seq[RestoredRun],
      groups: KeyGroupRange,
      entryCounts: Map[Int, Int => Long]
  ): Unit

  /** Like `changesCommitted()`, where the changes are the content of a local run file, which the
    * backend may move away.
    */
  def changesCommitted(run: File): Unit
}

sealed trait RestoredRun

/** A run in a local SST file, which the backend may move away. Families that are not registered and
  * groups that are not in `groups` must not be seen, and `isWhole` tells that there are no such groups.
  */
final case class RunFile(file: File, groups: KeyGroupRange, isWhole: Boolean) extends RestoredRun

/** A run that is not in an SST file, to be read once. */
final case class RunEntries(changes: Iterator[Change] with AutoCloseable) extends RestoredRun
