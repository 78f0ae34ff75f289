package org.apache.spark.sql.keystate.expression

/** Which rows of a key are in a result together. All times are in us. */
private[keystate] sealed abstract class JoinRule {

  /** The most from a result's earliest row to its latest one. */
  def span: Long

  /** How far after a row of one stream those of another one are that it can be joined with. */
  def reach(from: Int, to: Int): (Long, Long)

  /** When the watermark is that much after a row of a stream, nothing can be added to it. */
  def keep(stream: Int): Long

  /** How far the results' times are behind the watermark at most. */
  def delay: Long

  /** Whether rows go out when they are removed that were in no result. */
  def isOuter: Boolean
}

/** Rows of all streams that are at most `within` apart. */
private[keystate] final case class Within(within: Long, isOuter: Boolean) extends JoinRule {
  override def span: Long = within
  override def reach(from: Int, to: Int): (Long, Long) = (-within, within)
  override def keep(stream: Int): Long = within
  override def delay: Long = within
}

/** A row of the first stream with one of the second that is `lower` to `upper` after it.
  *
  * @param isOuter
  *   whether rows of the first stream go out without one of the second
  */
private[keystate] final case class Between(lower: Long, upper: Long, isOuter: Boolean)
    extends JoinRule {
  override def span: Long = Long.MaxValue
  override def reach(from: Int, to: Int): (Long, Long) =
    if (from == 0) (lower, upper) else (-upper, -lower)
  override def keep(stream: Int): Long = if (stream == 0) upper else -lower
  override def delay: Long = math.max(upper, 0)
}

private[keystate] object Between {

  /** The last field of what is stored of a row of the first stream: whether it was in a result. It is
    * there in an inner join too, which may go on as an outer one.
    */
  val Matched = "_matched"
}
