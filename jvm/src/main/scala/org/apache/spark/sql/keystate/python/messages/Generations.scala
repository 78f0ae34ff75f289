package org.apache.spark.sql.keystate.python.messages

import org.apache.spark.sql.keystate.python.columns.KeySlots

/** The keys that a task's worker has in its cache.
  *
  * Generations bound that cache. When it has enough keys, the next message opens a new generation,
  * and the worker answers with everything that it changed in the old one. A key of the old
  * generation that comes again before that answer was read is ''carried'': the worker takes its
  * state from the key's old slot. So the JVM never has to wait. A generation is not closed before
  * the one before it was answered.
  *
  * In a batch query answers are read in another thread too, under the task's lease.
  */
private[python] final class Generations {
  private var number = 0
  private var slots = new KeySlots
  private var before: KeySlots = _
  private var readOfBefore = 0 // of how many of its slots the changes were read

  /** Of the states that were sent in this generation. */
  var cachedBytes = 0L

  /** The number of this generation. */
  def current: Int = number

  /** The keys of this generation. */
  def currentSlots: KeySlots = slots

  /** The keys of the generation before; null once all its changes were read. */
  def previousSlots: KeySlots = before

  def slotsOf(generation: Int): KeySlots = if (generation == number) slots else before

  /** For how many slots of the generation before this one the changes were read. */
  def readBefore(generation: Int): Int =
    if (generation == number && before != null) readOfBefore else Int.MaxValue

  /** Opens a new one. The one before this must have been answered. */
  def open(): Unit = {
    before = slots
    readOfBefore = 0
    slots = new KeySlots
    cachedBytes = 0
    number += 1
  }

  /** Says that changes of a generation were read, of the slots before `until`. */
  def changed(generation: Int, until: => Int): Unit = if (generation != number) {
    readOfBefore = until
    if (readOfBefore == before.size) before = null
  }
}
