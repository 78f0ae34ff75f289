package org.apache.spark.sql.keystate.jvm

import java.util.Collections

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import keystate.errors.KeystateErrors
import keystate.{KeyedBatch, ValueState}

/** The elements of a batch function's call, and the states of their keys.
  *
  * @param currentKey
  *   the key of the current element
  */
private[jvm] final class ElementBatch(
    calls: IndexedSeq[ElementCall],
    currentKey: () => Any,
    host: CallHost
) extends KeyedBatch[Any, Any] {
  private val (ofKeys, indexes) = {
    val first = mutable.ArrayBuffer.empty[ElementCall]
    val found = mutable.HashMap.empty[UnsafeRow, Int]
    val indexes = calls.map { call =>
      found.getOrElseUpdate(
        call.key, {
          first += call
          first.size - 1
        }
      )
    }
    (first.toIndexedSeq, indexes)
  }

  override val elements: IndexedSeq[Any] = calls.map(_.value)
  override def keyOfElement: IndexedSeq[Int] = indexes
  override lazy val keys: IndexedSeq[Any] = ofKeys.map(within(_)(currentKey()))

  override def values[T](state: ValueState[T]): IndexedSeq[T] =
    ofKeys.map(within(_)(state.value()))

  override def update[T](state: ValueState[T], values: IterableOnce[T]): Unit = {
    val all = values.iterator.toIndexedSeq
    if (all.size != ofKeys.size)
      throw KeystateErrors.declaration(
        s"A batch with ${ofKeys.size} keys was given ${all.size} values of a state."
      )
    ofKeys.lazyZip(all).foreach((call, value) => within(call)(state.update(value)))
  }

  private def within[T](call: ElementCall)(use: => T): T = {
    host.enter(call, Collections.emptyList[InternalRow])
    try use
    finally host.leave()
  }
}
