package org.apache.spark.sql.keystate.python.columns

/** Which entries of a key are asked for: from entry key `start` (None: the first) to `end`, exclusive
  * (None: the last), backwards if `reverse`, at most about `limit`.
  */
private[keystate] final case class PageRequest(
    start: Option[Array[Byte]],
    end: Option[Array[Byte]],
    reverse: Boolean,
    limit: Int
) {

  /** The request for what follows the page that ended before entry key `next`. */
  def after(next: Array[Byte]): PageRequest =
    if (reverse) copy(end = Some(next)) else copy(start = Some(next))
}

/** One page of a state's entries, and where the next one begins if there is more. */
private[keystate] final case class Page(data: Array[Byte], next: Option[Array[Byte]])
