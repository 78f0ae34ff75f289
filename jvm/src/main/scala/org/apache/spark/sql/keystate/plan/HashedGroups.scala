package org.apache.spark.sql.keystate.plan

import java.util.{HashMap => JHashMap}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  GenericInternalRow, JoinedRow, UnsafeProjection, UnsafeRow
}

/** The groups of a task's rows, with their least hashes. So many hashes are kept at a time: then those
  * that are there are given away, and their groups may come again.
  *
  * @param wanted
  *   for each value how many hashes
  * @param columns
  *   where these values are in a row
  * @param hashes
  *   of a row's values that are not null
  */
private[plan] final class HashedGroups(
    wanted: Seq[Int],
    columns: Array[Int],
    hashes: Array[InternalRow => Long]
) {
  import HashedGroups._

  private val groups = new JHashMap[UnsafeRow, Group]
  private val joined = new JoinedRow
  private var seen = 0L
  private var begun = 0L // groups, also those that were given away
  private var held = 0L

  /** Whether so many of the first rows had a group of their own that to put them together would not
    * pay.
    */
  private var isOff = false

  /** A group's columns, the number of its rows, and bytes for each value. The same object each time. */
  def of(rows: Iterator[InternalRow], groupOf: UnsafeProjection): Iterator[InternalRow] =
    Iterator.continually(rows).takeWhile(_.hasNext).flatMap { left =>
      while (!isOff && held < MostHashes && left.hasNext) {
        val row = left.next()
        take(row, groupOf(row))
      }
      val taken = groups.values.asScala.iterator.map(group => joined(group.columns, group.made))
      taken ++ { clear(); if (isOff) left.map(alone(_, groupOf)) else Iterator.empty }
    }

  private def take(row: InternalRow, columnsOfGroup: UnsafeRow): Unit = {
    var group = groups.get(columnsOfGroup)
    if (group == null) {
      group = new Group(columnsOfGroup.copy(), wanted)
      groups.put(group.columns, group)
      begun += 1
      held += columnsOfGroup.getSizeInBytes / 8 + wanted.size * SketchCost
    }
    held += group.take(row)
    seen += 1
    isOff = seen == Sample && begun > Sample / 8
  }

  private def clear(): Unit = {
    groups.clear()
    held = 0
  }

  private def alone(row: InternalRow, groupOf: UnsafeProjection): InternalRow = {
    val made = new Array[Any](1 + columns.length)
    made(0) = 1L
    columns.indices.foreach { i =>
      made(i + 1) =
        if (row.isNullAt(columns(i))) NoHash else LeastHashes.bytes(1).putLong(hashes(i)(row)).array
    }
    joined(groupOf(row), new GenericInternalRow(made))
  }

  private final class Group(val columns: UnsafeRow, wanted: Seq[Int]) {
    private val least = wanted.map(new LeastHashes(_)).toArray
    private var rows = 0L

    /** Returns how many hashes more it holds. */
    def take(row: InternalRow): Int = {
      rows += 1
      var (i, more) = (0, 0)
      while (i < least.length) {
        if (!row.isNullAt(HashedGroups.this.columns(i))) {
          more -= least(i).size
          least(i).add(hashes(i)(row))
          more += least(i).size
        }
        i += 1
      }
      more
    }

    def made: InternalRow = new GenericInternalRow(Array[Any](rows) ++ least.map(_.toBytes))
  }
}

private[plan] object HashedGroups {
  private val NoHash = Array.emptyByteArray
  final val Sample = 1 << 16

  /** With places that are free they take 16 to 32 MB; so does what groups take besides. */
  final val MostHashes = 1 << 20

  /** What a value's hashes take besides, as hashes. */
  final val SketchCost = 16
}
