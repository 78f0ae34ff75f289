package org.apache.spark.sql.keystate.python.simulation

/** A fault put into the conversation on purpose, to see that the simulation finds it.
  *
  * @param text
  *   what is wrong
  */
private[simulation] sealed abstract class Fault(val text: String)

private[simulation] object Fault {

  /** One in the worker's code, by its name in `tests/conversation/faults.py`. */
  final case class OfWorker(name: String, what: String) extends Fault(what)

  case object LateReply
      extends Fault("a reply that comes late is taken for that to the next question")
  case object AllRead extends Fault("the JVM says that it has read all changes, which it has not")
  case object NextCacheEpoch extends Fault("changes are taken for those of the next generation")
  case object ReadTooFar extends Fault("changes of one slot too many count as read")
  case object LeaseGoesOn extends Fault("the lease of a task that is given up goes on")

  val all: Seq[Fault] = Seq(
    OfWorker("carried", "the state of a carried key is taken from the message"),
    OfWorker("carried_timers", "what is known of a carried key's timers is forgotten"),
    OfWorker("returned", "elements of a list that the JVM has yet to read are forgotten"),
    OfWorker("absent", "entries that the JVM has yet to remove are forgotten"),
    OfWorker("cleared", "a map that was cleared is only added to"),
    OfWorker("slot", "an answer leaves out its last slot"),
    OfWorker("deleted", "a timer fires that was deleted in the same batch"),
    OfWorker("page", "pages of a map after the first are not read"),
    OfWorker("first_page", "what the JVM had read by a list's first page counts for all pages"),
    OfWorker("exhausted", "one page of a sorted map is taken for all of it"),
    OfWorker("generation", "questions are asked of the first generation"),
    LateReply,
    AllRead,
    NextCacheEpoch,
    ReadTooFar,
    LeaseGoesOn
  )

  /** What is put into the worker's code. */
  def ofWorker(fault: Option[Fault]): Seq[String] = fault.collect { case OfWorker(name, _) =>
    name
  }.toSeq
}
