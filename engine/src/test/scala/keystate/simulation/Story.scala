package keystate.simulation

import scala.collection.mutable

/** What happened, for people; and how often each kind of thing did. */
final class Story {
  private val lines = mutable.ArrayBuffer.empty[String]
  private val counts = mutable.TreeMap.empty[String, Long]

  /** @param reached
    *   the kind of thing, if it is to be counted
    */
  def tell(scheduler: Scheduler, what: String, reached: String = null): Unit = {
    lines += s"${scheduler.now} ms ${scheduler.actorName}: $what"
    if (reached != null) reach(reached)
  }

  def tell0(what: String): Unit = lines += what

  def reach(kind: String): Unit = counts(kind) = counts.getOrElse(kind, 0L) + 1

  def reached: collection.Map[String, Long] = counts

  /** The lines; ids are told in short, in the order in which they come. */
  def text: String = {
    val short = mutable.HashMap.empty[String, String]
    Story.Id.replaceAllIn(
      lines.mkString("\n"),
      id => short.getOrElseUpdate(id.matched, s"#${short.size + 1}")
    )
  }
}

private object Story {
  private val Id = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}".r
}
