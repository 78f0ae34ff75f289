package org.apache.spark.sql.keystate.size

import java.nio.ByteBuffer

import scala.collection.mutable

/** The keys of a state that were not written for the longest time: not by any micro-batch after
  * some version, and in a state with a time to live, according to the entries' timestamps.
  *
  * A reported key was certainly not written since. For other keys that is unknown: their entries
  * may have been merged with later ones.
  */
private[keystate] final class UntouchedKeys {
  import UntouchedKeys._

  private val written = mutable.HashSet.empty[ByteBuffer]
  private val longest = mutable.PriorityQueue.empty[Key](Ordering.by(of => (of.time, -of.bytes)))
  private var number = 0L

  /** Notes a key that was written after the version. */
  def write(key: Array[Byte]): Unit = written += ByteBuffer.wrap(key)

  /** Looks at a key with all of its entries.
    *
    * @param time
    *   the last time in their timestamps, in ms; 0 if they have none
    */
  def see(key: Array[Byte], bytes: Long, time: Long): Unit =
    if (!written(ByteBuffer.wrap(key))) {
      number += 1
      longest += Key(key, bytes, time)
      if (longest.size > Most)
        longest.dequeue(): Unit
    }

  /** How many keys were not written since. */
  def count: Long = number

  /** The keys that were written first or, without times, the largest ones. */
  def first: Seq[Key] = longest.clone().dequeueAll.reverse
}

private[keystate] object UntouchedKeys {

  /** @param time
    *   when it was last written, in ms; 0 if that is not known
    */
  final case class Key(key: Array[Byte], bytes: Long, time: Long)

  private val Most = 10
}
