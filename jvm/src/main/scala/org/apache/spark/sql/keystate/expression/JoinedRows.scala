package org.apache.spark.sql.keystate.expression

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.{ArrayData, GenericArrayData}
import org.apache.spark.sql.types._

import org.apache.spark.sql.keystate.encoding.StateRows

/** Reads and writes what a join of many streams keeps, and makes its results. One thread at a time. */
private[expression] final class JoinedRows(join: JoinAll) extends AutoCloseable {
  private val n = join.streams.size
  private val widths = join.streams.map(_.stored.size).toArray
  private val times = join.streams.map(_.time).toArray

  private val read = new UnsafeRow(n + 1)
  private val kept = new GenericInternalRow(n + 1)
  private val encoded = UnsafeProjection.create(join.stored)

  /** The key, the earliest time, and for each stream a row of it. */
  private val parts = new GenericInternalRow(2 + n)
  private val columns: Seq[Expression] = {
    val keyType = StructType(join.key.map(column => StructField(column.name, column.dataType)))
    val key = BoundReference(0, keyType, nullable = false)
    val time = join.earliest.map(_ => BoundReference(1, TimestampType, nullable = true))
    keyType.indices.map(GetStructField(key, _)) ++ time ++
      join.streams.zipWithIndex.flatMap { case (stream, i) =>
        val row = BoundReference(2 + i, stream.stored, nullable = true)
        stream.names.indices.map(GetStructField(row, _))
      }
  }
  private def none = Literal(null, join.output)
  private val made =
    UnsafeProjection.create(if (join.late) Seq(CreateStruct(columns), none) else columns)
  private lazy val madeLate = UnsafeProjection.create(Seq(none, CreateStruct(columns)))

  def of(stream: Int, stored: InternalRow): TimedRow =
    new TimedRow(stored.getLong(times(stream)), stored)

  def hasTime(stream: Int, stored: InternalRow): Boolean = !stored.isNullAt(times(stream))

  /** What is kept of a key.
    *
    * @param value
    *   its stored value, which is not copied; null if there is none
    */
  def read(key: Array[Byte], group: Int, value: Array[Byte]): KeyRows = {
    val isStored = value != null
    if (isStored) StateRows.point(read, value)
    val own = new KeyRows(
      key,
      group,
      Array.tabulate(n) { i =>
        if (!isStored || read.isNullAt(i)) new StreamRows(new Array[TimedRow](1), 0)
        else streamRows(i, read.getArray(i))
      },
      if (!isStored || read.isNullAt(n)) Array.fill(n)(Long.MinValue) else gone(read.getArray(n))
    )
    own.isStored = isStored
    own.timer = if (isStored) own.next(join.rule) else Long.MaxValue
    own
  }

  private def streamRows(stream: Int, stored: ArrayData): StreamRows = {
    val size = stored.numElements()
    val rows = new Array[TimedRow](size + 1)
    for (j <- 0 until size) rows(j) = of(stream, stored.getStruct(j, widths(stream)))
    new StreamRows(rows, size)
  }

  /** A stream may have been added since. */
  private def gone(stored: ArrayData): Array[Long] = Array.tabulate(n) { i =>
    if (i >= stored.numElements() || stored.isNullAt(i)) Long.MinValue else stored.getLong(i)
  }

  def write(own: KeyRows): Array[Byte] = {
    for (i <- 0 until n) {
      val stream = own.streams(i)
      if (stream.size == 0) kept.setNullAt(i)
      else kept.update(i, new GenericArrayData(stream.slice(0, stream.size).map(_.stored: Any)))
    }
    if (own.gone.forall(_ == Long.MinValue)) kept.setNullAt(n)
    else {
      val told = own.gone.map(time => if (time == Long.MinValue) null else time: Any)
      kept.update(n, new GenericArrayData(told))
    }
    StateRows.encode(encoded(kept))
  }

  /** @param rows
    *   the row of each stream; null where there is none
    */
  def result(key: UnsafeRow, rows: Array[TimedRow]): UnsafeRow = {
    parts.update(0, key)
    var earliest = Long.MaxValue
    var i = 0
    while (i < n) {
      val row = rows(i)
      if (row == null) parts.setNullAt(2 + i)
      else {
        parts.update(2 + i, row.stored)
        earliest = math.min(earliest, row.time)
      }
      i += 1
    }
    parts.update(1, earliest)
    made(parts)
  }

  /** A row without a time, which is joined with none. */
  def untimed(key: UnsafeRow, stream: Int, row: InternalRow): UnsafeRow = {
    alone(key, stream, row)
    made(parts)
  }

  def late(key: UnsafeRow, stream: Int, row: TimedRow): UnsafeRow = {
    alone(key, stream, row.stored)
    parts.update(1, row.time)
    madeLate(parts)
  }

  private def alone(key: UnsafeRow, stream: Int, row: InternalRow): Unit = {
    for (i <- 1 until parts.numFields) parts.setNullAt(i)
    parts.update(0, key)
    parts.update(2 + stream, row)
  }

  override def close(): Unit = ()
}
