package keystate.checkpoint

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

/** What the function of one subtask has besides keyed state: lists, whose elements the worker encodes
  * as it likes. Kept as JSON in the family `$operator`, in the operator group:
  * {{{
  *  { "batch": 7,                              the batch that it was made in
  *    "lists": [{ "name": "..", "union": false, "elements": ["..", ..] }] }
  * }}}
  */
final case class OperatorState(batch: Long, lists: Seq[OperatorList])

/** @param union
  *   whether every subtask gets all elements of all subtasks when it is restored
  */
final case class OperatorList(name: String, union: Boolean, elements: Seq[String])

object OperatorState {
  val FamilyName = "$operator"

  /** Keys of the two entries: the state, and a tag by which a worker knows whether it has it. */
  val StateKey: Array[Byte] = Array(0)
  val TagKey: Array[Byte] = Array(1)

  private val json = new ObjectMapper

  def fromJson(bytes: Array[Byte]): OperatorState = {
    val root = json.readTree(bytes)
    OperatorState(root.get("batch").longValue, elementsOf(root, "lists").map(list).toSeq)
  }

  private def list(node: JsonNode) = OperatorList(
    node.get("name").textValue,
    node.get("union").booleanValue,
    elementsOf(node, "elements").map(_.textValue).toSeq
  )

  private def elementsOf(node: JsonNode, name: String): Iterator[JsonNode] =
    node.get(name).elements.asScala

  def toJson(state: OperatorState): Array[Byte] = {
    val root = json.createObjectNode.put("batch", state.batch)
    val lists = root.putArray("lists")
    state.lists.foreach { list =>
      val elements =
        lists.addObject.put("name", list.name).put("union", list.union).putArray("elements")
      list.elements.foreach(elements.add)
    }
    json.writeValueAsBytes(root)
  }

  /** The state of each subtask after their number has changed, as Flink's
    * `RoundRobinOperatorStateRepartitioner` deals it out: the elements of a list in their order, as
    * evenly as possible, and where one list's remainder ended, the next one's begins. Union lists
    * need not be spread, for all of them are read; the first subtask keeps them.
    */
  def redistribute(old: Seq[OperatorState], parallelism: Int): Seq[OperatorState] = {
    val names = old.flatMap(_.lists).map(list => (list.name, list.union)).distinct
    var first = 0
    val parts = names.map { case (name, union) =>
      val elements = collect(old, name)
      if (union) OperatorList(name, union, elements) +: Seq.fill(parallelism - 1)(empty(name))
      else {
        val remainder = elements.size % parallelism
        val sizes = Seq.tabulate(parallelism)(i =>
          elements.size / parallelism + (if (i < remainder) 1 else 0)
        )
        val starts = sizes.scanLeft(0)(_ + _)
        val dealt = starts.zip(sizes).map { case (at, size) => elements.slice(at, at + size) }
        val shift = first
        first = (first + remainder) % parallelism
        Seq.tabulate(parallelism) { subtask =>
          OperatorList(name, union, dealt(Math.floorMod(subtask - shift, parallelism)))
        }
      }
    }
    val batch = old.map(_.batch).maxOption.getOrElse(0L)
    Seq.tabulate(parallelism)(i => OperatorState(batch, parts.map(_(i))))
  }

  private def empty(name: String) = OperatorList(name, union = true, Nil)

  /** A subtask's state with its union lists as it is restored with: those of all subtasks. */
  def withUnions(own: OperatorState, all: Seq[OperatorState]): OperatorState = {
    val unions = all.flatMap(_.lists).filter(_.union).map(_.name).distinct
    val lists = own.lists.filterNot(_.union) ++
      unions.map(name => OperatorList(name, union = true, collect(all, name)))
    own.copy(lists = lists)
  }

  private def collect(states: Seq[OperatorState], name: String): Seq[String] =
    states.flatMap(_.lists).filter(_.name == name).flatMap(_.elements)
}
