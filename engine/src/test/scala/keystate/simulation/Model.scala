package keystate.simulation

import scala.collection.mutable
import scala.util.Random

/** Entries by family, key group and key. Those of the operator group are the same in each subtask. */
object Model {
  type Place = (String, Int, String)
  type Content = Map[Place, String]

  val Families: Seq[String] = Seq("p", "g")
  private final val Keys = 5

  /** What a batch does to the entries of one group: it reads each, and writes what follows from it
    * and the batch, or removes it. So a batch that counts twice, or not at all, shows for ever.
    */
  def change(
      input: Long,
      group: Int
  )(get: Place => Option[String], put: (Place, Option[String]) => Unit): Unit = {
    val random = new Random(input * 1000003 + group)
    random.nextInt() // the first one is nearly the same for all groups
    (0 until random.nextInt(3)).foreach { _ =>
      val place = (Families(random.nextInt(2)), group, s"${random.nextInt(Keys)}")
      val old = get(place)
      if (random.nextInt(5) == 0) put(place, None)
      else {
        val length = if (random.nextInt(8) == 0) 300 else 10
        val padding = random.alphanumeric.take(random.nextInt(length)).mkString
        put(place, Some(s"${old.hashCode} $input $padding"))
      }
    }
  }

  /** The element that a batch adds to a list of operator state. */
  def element(input: Long): String = s"$input"
}

/** What was committed, as the logs have it. */
final class Model(maxParallelism: Int) {
  import Model._

  private final class State(val content: Content, val elements: Vector[String])

  private val states = mutable.HashMap(0L -> new State(Map.empty, Vector.empty))

  def newest: Long = states.keysIterator.max

  def content(version: Long): Content = states(version).content

  /** The elements of the operator state's list, of all subtasks, in no order. */
  def elements(version: Long): Seq[String] = states(version).elements.sorted

  /** A batch was committed: version `version` was made by this input from the one before. */
  def commit(version: Long, input: Long): Unit = {
    val before = states(version - 1)
    val content = mutable.HashMap.from(before.content)
    (0 to maxParallelism).foreach { group =>
      change(input, group)(
        content.get,
        {
          case (place, Some(value)) => content(place) = value
          case (place, None) => content -= place
        }
      )
    }
    states(version) = new State(content.toMap, before.elements :+ element(input))
  }

  /** Newer versions are no longer committed: the power loss took their entries. */
  def forgetAfter(version: Long): Unit = {
    states.filterInPlace((other, _) => other <= version)
    ()
  }
}
