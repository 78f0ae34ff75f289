package org.apache.spark.sql.keystate.plan

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.types.DataType
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.hash.Murmur3_x86_32

/** Rows that have come, by their bytes: values that are equal and have other bytes count as
  * different. A row's hash has two places, for the last two rows; a place is the row's length, 0 where
  * there is none, and its words. There are more places as there are more rows.
  *
  * It relies on an UnsafeRow to be whole words long.
  */
private[plan] final class RecentRows(types: Seq[DataType]) {
  import RecentRows._

  private val placeWords = 1 + {
    val fixed = UnsafeRow.calculateBitSetWidthInBytes(types.size) / 8 + types.size
    if (types.forall(UnsafeRow.isFixedLength)) math.min(fixed, LargestWords) else LargestWords
  }
  private var count = FirstPlaces
  private var places = new Array[Long](count * placeWords)
  private var taken = 0
  private var seen = 0
  private var repeats = 0

  /** Whether the first rows had so few repeats that looking further does not pay off. */
  def isOff: Boolean = places == null

  /** Whether a row is not known to have occurred before. The caller may change the row afterwards.
    */
  def isNew(row: UnsafeRow): Boolean = {
    val (base, offset, size) = (row.getBaseObject, row.getBaseOffset, row.getSizeInBytes)
    var isRepeat = false
    if (size >> 3 < placeWords) {
      val first = start(Murmur3_x86_32.hashUnsafeWords(base, offset, size, Seed))
      isRepeat = isAt(first, base, offset, size) || isAt(first + placeWords, base, offset, size)
      if (!isRepeat) put(first, base, offset, size)
    }
    if (isRepeat) repeats += 1
    seen += 1
    if (seen == Sample && repeats < Sample / 8) places = null
    !isRepeat
  }

  private def start(hash: Int): Int = (hash & (count / 2 - 1)) * 2 * placeWords

  private def isAt(place: Int, base: AnyRef, offset: Long, size: Int): Boolean =
    places(place) == size && {
      val words = size >> 3
      var i = 0
      while (i < words && places(place + 1 + i) == Platform.getLong(base, offset + 8L * i)) i += 1
      i == words
    }

  private def put(first: Int, base: AnyRef, offset: Long, size: Int): Unit = {
    if (places(first + placeWords) == 0) taken += 1
    System.arraycopy(places, first, places, first + placeWords, placeWords)
    places(first) = size
    Platform.copyMemory(base, offset, places, address(first + 1), size)
    if (taken > count / 2 && places.length <= MostWords / 2) grow()
  }

  private def grow(): Unit = {
    val old = places
    count *= 2
    taken = 0
    places = new Array[Long](count * placeWords)
    (old.indices by placeWords).foreach { from =>
      val size = old(from).toInt
      val row = address(from + 1)
      if (size > 0) put(start(Murmur3_x86_32.hashUnsafeWords(old, row, size, Seed)), old, row, size)
    }
  }

  private def address(place: Int): Long = Platform.LONG_ARRAY_OFFSET + 8L * place
}

private[plan] object RecentRows {

  /** A power of two. */
  final val FirstPlaces = 1 << 11
  final val LargestWords = 16

  /** They take at most 4.5 MB: more would not stay in a processor's caches. */
  final val MostWords = (1 + LargestWords) << 15
  final val Sample = 1 << 16
  private final val Seed = 42
}
