package org.apache.spark.sql.keystate.forget

import java.util.Arrays

import scala.collection.mutable

import keystate.backend.{GroupedKey, KeyedStateBackend, Layout, StateFamily}
import org.apache.spark.sql.keystate.state.TimerKeys
import org.apache.spark.sql.keystate.store.KeystateCodec

/** All that a store has of a key. */
private[keystate] final class StoredKey(group: Int, key: Array[Byte]) {

  /** Removes the existing entries in these families: of states and timers, also of states that the
    * function no longer declares, and expired ones. Returns their number.
    */
  def removeFrom(backend: KeyedStateBackend, families: Iterable[StateFamily]): Long =
    families.map { family =>
      val entries = in(backend, family)
      entries.foreach(backend.remove(family.id, group, _))
      entries.size.toLong
    }.sum

  private def in(backend: KeyedStateBackend, family: StateFamily): Seq[Array[Byte]] =
    TimerKeys.of(family) match {
      case Some(timers) =>
        scan(backend, family, null)(entry => Arrays.equals(timers.keyOf(entry), key))
      case None if !KeystateCodec.owns(family) => Nil
      case None if family.layout == Layout.Point =>
        Option.when(backend.get(family.id, group, key) != null)(key).toSeq
      case None => scan(backend, family, GroupedKey.prefix(key))(_ => true)
    }

  private def scan(backend: KeyedStateBackend, family: StateFamily, start: Array[Byte])(
      isOfKey: Array[Byte] => Boolean
  ): Seq[Array[Byte]] = {
    val found = backend.scan(family.id, group, start, null)
    val entries = mutable.ArrayBuffer.empty[Array[Byte]]
    try found.foreach(entry => if (isOfKey(entry.key)) entries += entry.key)
    finally found.close()
    entries.toSeq
  }
}

private[keystate] object StoredKey {

  /** The length of a timer's domain and time. */
  private final val TimerHeader = 9

  private def isAt(entry: Array[Byte], start: Int, part: Array[Byte]) = {
    val end = start + part.length
    end <= entry.length && Arrays.equals(entry, start, end, part, 0, part.length)
  }

  /** Whether an entry key belongs to a key, in a state of any kind or among the timers. No other
    * key's entry does: a stored key has a multiple of eight bytes, and the part before it has four
    * or nine, or thirteen where a window follows, which a stored key does not begin with.
    */
  def isOf(key: Array[Byte]): Array[Byte] => Boolean = {
    val prefix = GroupedKey.prefix(key)
    entry =>
      Arrays.equals(entry, key) ||
        Arrays.mismatch(prefix, entry) == prefix.length || Arrays.equals(entry, prefix) ||
        isAt(entry, TimerHeader, key) && entry.length == TimerHeader + key.length ||
        isAt(entry, TimerHeader, prefix)
  }
}
