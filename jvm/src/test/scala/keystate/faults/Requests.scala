package keystate.faults

import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

/** The requests that this process made to an [[ObjectFileSystem]]. */
object Requests {

  /** A request.
    *
    * @param verb
    *   `PUT` (a file that is made), `GET` (one that is opened), `HEAD`, `LIST`, `DELETE` (of any
    *   number of files), `MKDIR` or `RENAME`
    * @param thread
    *   the name of the thread that made it
    */
  final case class Request(verb: String, path: String, thread: String)

  private val made = new ConcurrentLinkedQueue[Request]

  def count(verb: String, path: String): Unit = {
    made.add(Request(verb, path, Thread.currentThread.getName))
    ()
  }

  def all: Seq[Request] = made.asScala.toSeq

  def clear(): Unit = made.clear()

  /** How many there were of each verb, on paths in which the pattern is found. */
  def counts(pattern: String = ""): Map[String, Int] = {
    val found = pattern.r
    all.filter(request => found.findFirstIn(request.path).isDefined).groupBy(_.verb).map {
      case (verb, requests) => verb -> requests.size
    }
  }

  /** The requests of a piece of work. */
  def of(body: => Any): Seq[Request] = {
    clear()
    val _ = body
    all
  }

  /** For Python: each request as `VERB path`, in lines. */
  def text: String = all.map(request => s"${request.verb} ${request.path}").mkString("\n")
}
