package org.apache.spark.sql.keystate.python.messages

import org.apache.arrow.vector.complex.ListVector

import org.apache.spark.sql.types.{ArrayType, DataType, StructField}
import org.apache.spark.sql.vectorized.ArrowColumnVector

import org.apache.spark.sql.keystate.encoding.ArrowStreams
import org.apache.spark.sql.keystate.spec.{Protocol, StateKind, StateSpec}
import org.apache.spark.sql.keystate.state.FamilyEntries

/** The JVM's side of one state. It sends stored state to the worker, ahead of the rows that may
  * need it, and stores what the function changed.
  */
private[keystate] trait StateColumns {

  /** Makes the sender that fills this state's columns of a message to the worker. */
  def sender(column: String => ListVector): StateSender

  /** Stores the changes in a message from the worker. Its columns have one element for each key index
    * that it changed. Returns the numbers of entries put and removed.
    */
  def apply(keyIndexes: KeyIndexes, columns: String => ArrowColumnVector): (Long, Long)
}

/** A state that may be too large to be sent ahead. */
private[keystate] trait PagedColumns extends StateColumns {

  /** A page of a key's entries. */
  def page(group: Int, key: Array[Byte], request: PageRequest, format: ArrowStreams): Page
}

/** Fills a state's columns of a message to the worker: one element for each key new to it. */
private[keystate] trait StateSender {

  /** Adds the states of the keys in `keyIndexes`, from key index `from` on. Returns about how many
    * bytes they have. The state of a carried key is still with the worker, so a null takes its place.
    */
  def load(keyIndexes: KeyIndexes, from: Int, carried: Array[Int]): Long

  /** Closes the columns. `reset` empties them once the message was written. */
  def finish(): Unit
  def reset(): Unit
}

/** For states that can have too many entries for a key to be sent ahead. */
private[keystate] abstract class EntriesSender extends StateSender {

  /** Adds the entries of a key, or a null if they are too many. Returns how many bytes it added. */
  protected def send(group: Int, key: Array[Byte]): Long

  protected def addNull(): Unit

  final override def load(keyIndexes: KeyIndexes, from: Int, carried: Array[Int]): Long = {
    var bytes = 0L
    var i = 0
    while (from + i < keyIndexes.size) {
      if (carried(i) >= 0) addNull()
      else bytes += send(keyIndexes.group(from + i), keyIndexes.key(from + i))
      i += 1
    }
    bytes
  }
}

/** How much of a list or map is sent ahead. A larger one is requested by page. */
private[keystate] final case class Inline(entries: Int, bytes: Long) {
  def fits(entries: Int, bytes: Long): Boolean = entries <= this.entries && bytes <= this.bytes
}

private[keystate] object StateColumns {

  /** A page ends when it has this many bytes, however few its entries: they may be large. */
  val PageBytes: Long = 4L << 20

  /** A state's columns in a message to the worker. */
  def sentFields(spec: StateSpec, index: Int): Seq[StructField] =
    spec.kind match {
      case StateKind.Value => Seq(list(Protocol.stateColumn(index), spec.valueType))
      case StateKind.List => Seq(list(Protocol.stateColumn(index), ArrayType(spec.valueType)))
      case StateKind.Map | StateKind.SortedMap =>
        Seq(
          list(Protocol.stateColumn(index, Protocol.Part.Keys), ArrayType(spec.keyType.get)),
          list(Protocol.stateColumn(index, Protocol.Part.Values), ArrayType(spec.valueType))
        )
    }

  def list(name: String, element: DataType): StructField = StructField(name, ArrayType(element))

  def apply(spec: StateSpec, index: Int, entries: FamilyEntries, inline: Inline): StateColumns =
    spec.kind match {
      case StateKind.Value => new ValueStateColumns(spec, index, entries)
      case StateKind.List => new ListStateColumns(spec, index, entries, inline)
      case StateKind.Map | StateKind.SortedMap => new MapStateColumns(spec, index, entries, inline)
    }
}
