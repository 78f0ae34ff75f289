package org.apache.spark.sql.keystate.jvm.state

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform

import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.state.FamilyEntries

/** The key that a JVM function is processing, and the entries of the current task's states. All
  * states read both from here. So moving on to the next element costs the same however many states
  * there are.
  */
private[keystate] final class CurrentKey {
  private var row: UnsafeRow = _
  private var bytes: Array[Byte] = _
  private var keyGroup = 0
  private var open = false
  private var caller: Thread = _ // that the function is called in; null outside of a task's calls
  private val iterators = ArrayBuffer.empty[AutoCloseable]

  private var entries: Array[FamilyEntries] = Array.empty

  def enter(ofTask: Seq[FamilyEntries]): Unit = entries = ofTask.toArray

  /** The entries through which a state is read and written. */
  def entriesOf(state: Int): FamilyEntries = entries(state)

  /** Counts elements, so that a value that a state read for one element is not used for another. */
  var element = 0L

  /** Entries put and removed in this task. */
  var updated = 0L
  var removed = 0L

  /** The event time of the current element or event-time timer; `Long.MinValue` if it has none. */
  var eventTime: () => Long = () => Long.MinValue

  def isOpen: Boolean = open

  /** From now on only this thread may use states. A thread that the function itself started may
    * still run long after its element or task has ended, and is refused.
    */
  def enterCalls(): Unit = caller = Thread.currentThread
  def leaveCalls(): Unit = caller = null

  private def isCaller: Boolean = Thread.currentThread eq caller

  def moveTo(key: UnsafeRow, group: Int): Unit = {
    row = key
    bytes = null
    keyGroup = group
    element += 1
    open = true
  }

  /** Says that its entries were changed otherwise than by states, so what these read does not count. */
  def changed(): Unit = element += 1

  def leave(): Unit = {
    open = false
    if (iterators.nonEmpty) {
      iterators.foreach(_.close())
      iterators.clear()
    }
  }

  def group: Int = keyGroup

  def currentRow: UnsafeRow = row

  /** The key's bytes. The backend may keep the array. */
  def key: Array[Byte] = {
    if (bytes == null) {
      bytes = new Array[Byte](row.getSizeInBytes)
      row.writeToMemory(bytes, Platform.BYTE_ARRAY_OFFSET.toLong)
    }
    bytes
  }

  def check(state: String): Unit =
    if (!open || !isCaller) throw KeystateErrors.noCurrentKey(state)

  /** Throws if this is not the thread that the function is called in. For methods that need no key.
    */
  def checkCaller(what: String): Unit = if (!isCaller) throw KeystateErrors.notInCall(what)

  def closeLater(iterator: AutoCloseable): Unit = iterators += iterator
}
