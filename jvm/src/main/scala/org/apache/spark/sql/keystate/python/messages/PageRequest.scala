package org.apache.spark.sql.keystate.python.messages

/** The requested entries of a key: from entry key `start` (inclusive; None: the first) to `end`
  * (exclusive; None: the last), backwards if `reverse`, and at most about `limit` entries.
  */
private[keystate] final case class PageRequest(
    start: Option[Array[Byte]],
    end: Option[Array[Byte]],
    reverse: Boolean,
    limit: Int
) {

  /** The request for what follows a page whose `next` is this entry key. */
  def after(next: Array[Byte]): PageRequest =
    if (reverse) copy(end = Some(next)) else copy(start = Some(next))
}

/** A page of a state's entries. `next` is where the next page begins; None if this is the last. */
private[keystate] final case class Page(data: Array[Byte], next: Option[Array[Byte]])
