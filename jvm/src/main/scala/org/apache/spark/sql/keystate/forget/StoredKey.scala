package org.apache.spark.sql.keystate.forget

import java.util.Arrays

import scala.collection.mutable

import keystate.backend.{GroupedKey, KeyedStateBackend, Layout, StateFamily}
import org.apache.spark.sql.keystate.spec.SystemColumnFamilies
import org.apache.spark.sql.keystate.state.Timers
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
    if (family.name == SystemColumnFamilies.TimersName)
      scan(backend, family, null)(entry => Arrays.equals(Timers.keyOf(entry), key))
    else if (!KeystateCodec.owns(family)) Nil
    else if (family.layout == Layout.Point)
      Option.when(backend.get(family.id, group, key) != null)(key).toSeq
    else scan(backend, family, GroupedKey.prefix(key))(_ => true)

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

  /** Whether an entry key belongs to a key, in a state of any kind or among the timers. No other
    * key's entry does: a stored key has a multiple of eight bytes, and the part before it has four
    * or nine.
    */
  def isOf(key: Array[Byte]): Array[Byte] => Boolean = {
    val prefix = GroupedKey.prefix(key)
    entry =>
      Arrays.equals(entry, key) ||
        Arrays.mismatch(prefix, entry) == prefix.length || Arrays.equals(entry, prefix) ||
        entry.length == key.length + 9 && Arrays.equals(Timers.keyOf(entry), key)
  }
}
