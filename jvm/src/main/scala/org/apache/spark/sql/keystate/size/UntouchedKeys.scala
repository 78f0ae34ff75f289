package org.apache.spark.sql.keystate.size

import java.nio.ByteBuffer

import scala.collection.mutable

/** Which keys of a state were not written for the longest: not by any micro-batch after some version,
  * and of a state with a time to live, by what its entries say.
  *
  * A key that is told was not written since. That of others is not known: their entries may have been
  * merged with later ones.
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

  /** Those that were written first, or else that are the largest. */
  def first: Seq[Key] = longest.clone().dequeueAll.reverse
}

private[keystate] object UntouchedKeys {

  /** @param time
    *   when it was last written, in ms; 0 if that is not known
    */
  final case class Key(key: Array[Byte], bytes: Long, time: Long)

  private val Most = 10
}
