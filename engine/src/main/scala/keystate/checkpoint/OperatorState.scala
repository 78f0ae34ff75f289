package keystate.checkpoint

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

import keystate.backend.Change
import keystate.files.{CheckpointStorage, LocalFolder, StoreLocation}
import keystate.keygroup.KeyGroupRange
import keystate.version.{EntryCounts, InlineRun, Manifest}

/** The operator state of one subtask's function: lists. The code that runs the function encodes
  * their elements as text; this class does not parse them. Stored as JSON in the family
  * `$operator`, in the operator group:
  * {{{
  *  { "batch": 7,                              the batch that wrote the state
  *    "lists": [{ "name": "..", "union": false, "elements": ["..", ..] }] }
  * }}}
  */
final case class OperatorState(batch: Long, lists: Seq[OperatorList])

/** One list of operator state.
  *
  * @param union
  *   whether every subtask gets the elements of all subtasks when it is restored
  */
final case class OperatorList(name: String, union: Boolean, elements: Seq[String])

/** The state that a subtask restores.
  *
  * @param own
  *   the subtask's own state; lists that its function does not get stay unchanged
  * @param unions
  *   for each union list that its function may get, the elements of all subtasks
  */
final case class RestoredOperatorState(own: OperatorState, unions: Map[String, Seq[String]]) {

  /** The elements that the function gets of a list. */
  def elements(name: String): Seq[String] =
    unions.getOrElse(name, OperatorState.collect(Seq(own), name))
}

object OperatorState {

  /** The name of the family that it is kept in. */
  val FamilyName = "$operator"

  /** The entry key of the state. */
  val StateKey: Array[Byte] = Array(0)

  /** The entry key of a tag, which changes with every snapshot: a worker compares it to check
    * whether its function has the state of the snapshot. Empty after a rescale.
    */
  val TagKey: Array[Byte] = Array(1)

  private val json = new ObjectMapper

  /** The state that the JSON says; throws when it is not such JSON. */
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

  /** The JSON, in UTF-8. */
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

  /** The state of each subtask after their number has changed to `parallelism`, split as by Flink's
    * `RoundRobinOperatorStateRepartitioner`. The elements of a list keep the order of the old
    * subtasks and are split as evenly as possible. If some subtasks get one more element, they
    * follow the subtasks that got one more of the previous list. Union lists need no split, because
    * a restore reads the lists of all subtasks; the first subtask keeps them.
    *
    * @param old
    *   the states of the old subtasks that have one, in order
    */
  def redistribute(old: Seq[OperatorState], parallelism: Int): Seq[OperatorState] = {
    val names = old.flatMap(_.lists).map(list => (list.name, list.union)).distinct
    var first = 0
    val parts = names.map { case (name, union) =>
      val elements = collect(old, name).toVector
      if (union) OperatorList(name, union, elements) +: Vector.fill(parallelism - 1)(empty(name))
      else {
        val remainder = elements.size % parallelism
        val sizes = Vector.tabulate(parallelism)(i =>
          elements.size / parallelism + (if (i < remainder) 1 else 0)
        )
        val starts = sizes.scanLeft(0)(_ + _)
        val dealt = starts.zip(sizes).map { case (at, size) => elements.slice(at, at + size) }
        val shift = first
        first = (first + remainder) % parallelism
        Vector.tabulate(parallelism) { subtask =>
          OperatorList(name, union, dealt(Math.floorMod(subtask - shift, parallelism)))
        }
      }
    }
    val batch = old.map(_.batch).maxOption.getOrElse(0L)
    Vector.tabulate(parallelism)(i => OperatorState(batch, parts.map(_(i))))
  }

  private def empty(name: String) = OperatorList(name, union = true, Nil)

  /** The elements of some lists, over all subtasks. */
  def collectAll(all: Seq[OperatorState], names: Set[String]): Map[String, Seq[String]] =
    names.map(name => name -> collect(all, name)).toMap

  private[checkpoint] def collect(states: Seq[OperatorState], name: String): Seq[String] =
    states.flatMap(_.lists).filter(_.name == name).flatMap(_.elements)
}

/** Reads subtasks' operator state from committed versions, and replaces it in manifests, without
  * loading the versions.
  */
private[checkpoint] final class OperatorStates(storage: CheckpointStorage, local: LocalFolder) {

  /** The operator state of a version; None when it has none. */
  def read(location: StoreLocation, manifest: Manifest): Option[OperatorState] =
    family(manifest).flatMap { family =>
      val group = manifest.partitioning.operatorGroup
      val files = new RunFiles(location, storage, local)
      // Every batch writes the state, so one of the newest runs has it.
      manifest.runs.reverseIterator
        .filter(_.groups.contains(group))
        .flatMap { run =>
          val own = KeyGroupRange(group, group)
          val entries = files.read(run, isWhole = false, Set(family), own, manifest.version)
          try entries.filter(_.key.sameElements(OperatorState.StateKey)).toVector
          finally entries.close()
        }
        .nextOption()
        .map(change => OperatorState.fromJson(change.value))
    }

  /** The manifest with another operator state, as an inline run that is the newest. One
    * without operator state stays as it is.
    */
  def replace(manifest: Manifest, state: OperatorState): Manifest =
    family(manifest).fold(manifest) { family =>
      val group = manifest.partitioning.operatorGroup
      val entries = Seq(
        Change(family, group, OperatorState.StateKey, OperatorState.toJson(state)),
        Change(family, group, OperatorState.TagKey, Array.emptyByteArray)
      )
      val run =
        InlineRun.encode(_.addAll(entries), Int.MaxValue.toLong, manifest.version, manifest.id)
      val counts =
        manifest.partitioning.ownGroups.map(g => if (g == group) entries.size.toLong else 0L)
      manifest.copy(
        entryCounts = manifest.entryCounts.updated(family, EntryCounts(counts)),
        runs = manifest.runs ++ run
      )
    }

  private def family(manifest: Manifest): Option[Int] =
    manifest.families.find(_.name == OperatorState.FamilyName).map(_.id)
}
