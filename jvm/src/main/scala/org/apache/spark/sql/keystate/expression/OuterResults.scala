package org.apache.spark.sql.keystate.expression

/** The results of an outer join with a row that can't get more, and without a row of some stream.
  *
  * The rows that may be with a row, if it is the earliest one, are those up to `within` after it: all
  * of them are near enough. So a stream that has such rows is in each of the results. Of the others
  * the last row before it decides: where that is near enough to a result's latest row, the result is
  * part of one that has begun before.
  *
  * @param own
  *   what is kept of a key; may change afterwards
  * @param until
  *   up to this time rows can't get more
  */
private[expression] final class OuterResults(own: KeyRows, within: Long, until: Long)
    extends Iterator[Array[TimedRow]] {
  private val streams = own.streams.indices
  private val rows = own.streams.map(stream => stream.slice(0, stream.size))

  /** The time of each stream's last row before those that are left. */
  private val gone = own.gone.clone()
  private val position = new Array[Int](rows.length)
  private var current: Iterator[Array[TimedRow]] = Iterator.empty

  override def hasNext: Boolean = {
    var first = 0
    while (!current.hasNext && first >= 0) {
      first = firstLeft
      if (first >= 0) current = startingWith(first)
    }
    current.hasNext
  }

  override def next(): Array[TimedRow] = {
    if (!hasNext) throw new NoSuchElementException("no more results")
    current.next()
  }

  /** The stream with the earliest row that is left and can't get more; negative if there is none. */
  private def firstLeft: Int = {
    var found = -1
    for (i <- streams if isLeft(i, until))
      if (found < 0 || timeOf(i) < timeOf(found)) found = i
    found
  }

  private def isLeft(stream: Int, until: Long) =
    position(stream) < rows(stream).length && timeOf(stream) <= until

  private def timeOf(stream: Int) = rows(stream)(position(stream)).time

  private def startingWith(stream: Int): Iterator[Array[TimedRow]] = {
    val row = rows(stream)(position(stream))
    val end = Micros.plus(row.time, within)
    position(stream) += 1
    gone(stream) = row.time
    var after = Long.MinValue
    var isWhole = true
    val near = rows.clone()
    for (i <- streams)
      if (i == stream) near(i) = Array(row)
      else if (isLeft(i, end)) near(i) = rows(i).drop(position(i)).takeWhile(_.time <= end)
      else {
        near(i) = null
        isWhole = false
        if (gone(i) > Long.MinValue) after = math.max(after, Micros.plus(gone(i), within))
      }
    // Those with a row of each stream have gone out when the last of them came.
    if (isWhole) Iterator.empty else new Combinations(near, within, after)
  }
}
