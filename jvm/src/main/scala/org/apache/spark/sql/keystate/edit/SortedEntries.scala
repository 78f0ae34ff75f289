package org.apache.spark.sql.keystate.edit

import java.util.Arrays

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.CatalystTypeConverters
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.catalyst.util.ArrayData

import keystate.backend.{Change, GroupedKey, Layout, StateFamily}
import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.encoding.OrderedKeyCodec
import org.apache.spark.sql.keystate.spec.StateSpec
import org.apache.spark.sql.keystate.state.ListChunks

/** The entries of a partition on the way from their sort into a run: elements of lists are put
  * together to chunks, and a key that comes twice is an error.
  *
  * @param lists
  *   the list states whose entries are single elements, by the ids of their families
  * @param families
  *   all families, for messages
  */
private[keystate] final class SortedEntries(
    sorted: Iterator[Change],
    lists: Map[Int, StateSpec],
    families: Seq[StateFamily],
    keys: StoredEntryKeys
) extends Iterator[Change] {
  private val rest = sorted.buffered
  private val chunksOf = lists.map { case (id, spec) => id -> new ListChunks(spec) }
  private var last: Change = _ // the entry before; null at first
  private var list: Array[Byte] = _ // the key of the current list; null if there is none
  private var chunk = 0L // the number of its next chunk

  override def hasNext: Boolean = rest.hasNext

  override def next(): Change = {
    val entry = chunksOf.get(rest.head.family) match {
      case Some(chunks) => nextChunk(chunks)
      case None => rest.next()
    }
    if (
      last != null && last.family == entry.family && last.group == entry.group &&
      Arrays.equals(last.key, entry.key)
    ) throw twice(entry)
    last = entry
    entry
  }

  private def nextChunk(chunks: ListChunks): Change = {
    val first = rest.next()
    val key = GroupedKey.keyOf(first.key)
    val continues = last != null && last.family == first.family && Arrays.equals(list, key)
    if (!continues) chunk = 0
    list = key
    val elements = ArrayBuffer[ArrayData](chunks.decode(first.value))
    var bytes = first.value.length
    while (bytes < ListChunks.SmallChunk && rest.hasNext && isOfList(rest.head, first)) {
      val more = rest.next()
      elements += chunks.decode(more.value)
      bytes += more.value.length
    }
    val (at, value) = chunks.chunk(key, chunk, elements.toSeq)
    chunk += 1
    Change(first.family, first.group, at, value)
  }

  private def isOfList(entry: Change, first: Change): Boolean =
    entry.family == first.family && entry.group == first.group &&
      Arrays.equals(GroupedKey.keyOf(entry.key), list)

  private def twice(entry: Change): Throwable = {
    val family = families.find(_.id == entry.family).get
    val grouped = family.layout == Layout.Grouped
    KeystateErrors.stateRow(
      family.name,
      if (StateSpec.isBroadcast(family)) mapKey(StateSpec.of(family), entry.key)
      else keys.show(family, entry.key),
      if (grouped) "one of its map keys is there twice" else "this key is there twice"
    )
  }

  private def mapKey(state: StateSpec, key: Array[Byte]): String = {
    val row = new GenericInternalRow(1)
    OrderedKeyCodec(state.keyType.get, state.order).decode(key, 0, row, 0)
    s"${CatalystTypeConverters.convertToScala(row.get(0, state.keyType.get), state.keyType.get)}"
  }
}
