package org.apache.spark.sql.keystate.python

import org.apache.arrow.vector.VectorSchemaRoot
import org.apache.arrow.vector.complex.ListVector
import org.json4s.JsonAST.JObject
import org.json4s.{DefaultFormats, Formats}

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.types.{IntegerType, StructType}
import org.apache.spark.sql.vectorized.ArrowColumnVector

import org.apache.spark.sql.keystate.encoding.ArrowStreams
import org.apache.spark.sql.keystate.python.messages.{
  IntColumn, KeyIndexes, KeyedColumns, RowColumn, StateColumns, TimerColumns
}
import org.apache.spark.sql.keystate.spec.{OperatorSpec, Protocol}
import org.apache.spark.sql.keystate.state.{FamilyEntries, Timers}

/** Sends a worker all keys that have one state, page by page, for `apply_to_keyed_state`. The
  * question for the next page carries the changes of the last one. So the worker never holds more
  * than one page. Each page numbers its keys from 0.
  */
private[keystate] final class KeyPages(
    spec: OperatorSpec,
    keySchema: StructType,
    entries: Seq[FamilyEntries],
    states: KeyedColumns,
    timers: Option[Timers],
    maxParallelism: Int,
    format: ArrowStreams
) extends AskedKeys {
  import KeyPages._
  private implicit val formats: Formats = DefaultFormats

  private var keyIndexes = new KeyIndexes
  private var left = Iterator.empty[(Int, Array[Byte])]
  private val row = new UnsafeRow(keySchema.length)

  /** The numbers of entries that were put and removed. */
  var updated = 0L
  var removed = 0L

  override def keyIndexesOf(cacheEpoch: Int): KeyIndexes = keyIndexes
  override def readBefore(cacheEpoch: Int): Int = Int.MaxValue

  def questions: Questions.Table = Map(
    Protocol.Op.Keys -> ((question, changes) => (JObject(), next(question, changes)))
  )

  /** Takes the changes of the last page and returns the next one, empty after the last key. */
  private def next(question: JObject, changes: Array[Byte]): Array[Byte] = {
    if (changes.isEmpty) {
      val state = (question \ Protocol.Question.State).extract[Int]
      left = entries(state).keys(maxParallelism).iterator
    } else format.readVectors(changes)(apply)
    keyIndexes = new KeyIndexes
    while (left.hasNext && keyIndexes.size < KeysPerPage) {
      val (group, key) = left.next()
      row.pointTo(key, key.length)
      keyIndexes.add(row, row.hashCode, group)
    }
    format.writeVectors(schema)(write)
  }

  private def apply(changes: VectorSchemaRoot): Unit = {
    val column = (name: String) => new ArrowColumnVector(changes.getVector(name))
    val (put, gone) = states(keyIndexes, column)
    updated += put
    removed += gone
    timers.foreach(TimerColumns(_, keyIndexes, column))
  }

  private val schema = StructType(
    Seq(
      StateColumns.list(Protocol.Message.Keys, keySchema),
      StateColumns.list(Protocol.Message.Carried, IntegerType)
    ) ++
      spec.states.zipWithIndex.flatMap { case (state, i) => StateColumns.sentFields(state, i) }
  )

  /** Writes a page: a message of new keys with their states. Returns its number of Arrow rows. */
  private def write(root: VectorSchemaRoot): Int = {
    def list(name: String) = root.getVector(name).asInstanceOf[ListVector]
    val keys = new RowColumn(list(Protocol.Message.Keys))
    val carried = new IntColumn(list(Protocol.Message.Carried))
    (0 until keyIndexes.size).foreach { keyIndex =>
      row.pointTo(keyIndexes.key(keyIndex), keyIndexes.key(keyIndex).length)
      keys.add(row)
      carried.add(-1)
    }
    keys.finish()
    carried.finish()
    val none = Array.fill(keyIndexes.size)(-1)
    states.all.map(_.sender(list)).foreach { sender =>
      sender.load(keyIndexes, 0, none)
      sender.finish()
    }
    1
  }
}

private object KeyPages {
  final val KeysPerPage = 1000
}
