package org.apache.spark.sql.keystate.expression

import java.util.{HashMap => JHashMap}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import org.apache.spark.sql.keystate.operator.{FunctionPass, OperatorTaskContext, TaskRows}

/** A task's pass over rows, for aggregates of all rows of a key. A key's buffers are read when its
  * first row comes, and written when the last one has come. In real-time mode each row gives a
  * result at once.
  */
private[expression] final class KeyAggregates(
    buffers: AggregateBuffers,
    rows: TaskRows,
    context: OperatorTaskContext
) extends FunctionPass {
  private val reader = context.inputs.head
  private val entries = new CountedEntries(context.entries.head)
  private val held = new JHashMap[UnsafeRow, KeyAggregates.Held]
  // The keys, with their groups, whose buffers were written before the last row came.
  private val written = new JHashMap[UnsafeRow, Integer]

  override def updated: Long = entries.updated
  override def removed: Long = entries.removed

  override val output: Iterator[InternalRow] =
    if (context.batch.realTime) rows.map(live) ++ afterwards { writeAll(); Iterator.empty }
    else afterwards { takeAll(); emitted }

  private def afterwards(rows: => Iterator[InternalRow]): Iterator[InternalRow] =
    Iterator.single(()).flatMap(_ => rows)

  private def takeAll(): Unit = context.lease.useInOneThread {
    while (rows.hasNext) take(rows.next()): Unit
  }

  private def live(row: InternalRow): InternalRow = context.lease.useInOneThread {
    val own = take(row)
    buffers.results(own.key, own.buffers)
  }

  private def writeAll(): Unit = context.lease.useInOneThread {
    held.values.forEach { own =>
      put(own)
      if (!context.batch.realTime) written.put(own.key, own.group): Unit
    }
    held.clear()
  }

  private def take(row: InternalRow): KeyAggregates.Held = {
    if (held.size > buffers.mostHeld) writeAll()
    val key = reader.keys.key(row)
    var own = held.get(key)
    if (own == null) {
      own = new KeyAggregates.Held(key.copy(), reader.keys.group(row))
      own.buffers = stored(own.group, own.key)
      held.put(own.key, own)
    }
    buffers.add(own.buffers, reader.toColumns(row))
    own
  }

  private def stored(group: Int, key: UnsafeRow): Buffers = {
    val value = entries.get(group, key.getBytes)
    if (value == null) buffers.create() else buffers.read(value)
  }

  /** The results of all keys that had rows. Writes the buffers of each key once its result is made:
    * that leaves nothing of them.
    */
  private def emitted: Iterator[InternalRow] = {
    val last = held.values.asScala.iterator.map { own =>
      written.remove(own.key)
      context.lease.useInOneThread {
        val result = buffers.results(own.key, own.buffers)
        put(own)
        result
      }
    }
    last ++ written.asScala.iterator.map { case (key, group) =>
      context.lease.useInOneThread(buffers.results(key, stored(group, key)))
    }
  }

  private def put(own: KeyAggregates.Held): Unit =
    entries.put(own.group, own.key.getBytes, buffers.write(own.buffers))
}

private object KeyAggregates {

  /** A key and its buffers. */
  private final class Held(val key: UnsafeRow, val group: Int) {
    var buffers: Buffers = _
  }
}
