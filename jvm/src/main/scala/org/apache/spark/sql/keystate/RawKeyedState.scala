package org.apache.spark.sql.keystate

import java.util.Arrays

import org.json4s.{DefaultFormats, Formats}
import org.json4s.JsonAST.JObject
import org.json4s.JsonDSL._

import org.apache.spark.sql.vectorized.ArrowColumnVector

import keystate.backend.{KeyedStateBackend, Layout}
import keystate.keygroup.KeyGroupRange

/** The raw keyed state of a subtask: a stream of bytes for a key group, an entry of that group. So it
  * goes with the group when the parallelism changes.
  *
  * @param groups
  *   the key groups of the subtask
  */
private[keystate] final class RawKeyedState(
    family: Int,
    backend: KeyedStateBackend,
    groups: KeyGroupRange
) {
  import RawKeyedState._

  /** The first stream of this group or a later one, with its group. */
  def next(from: Int): Option[(Int, Array[Byte])] =
    (math.max(from, groups.first) to groups.last).iterator
      .map(group => (group, backend.get(family, group, Key)))
      .find(_._2 != null)

  /** Takes the streams of a snapshot in place of all that there are. Those that did not change are
    * not written again.
    */
  def receive(column: String => ArrowColumnVector): Unit = {
    val written = column("raw_groups").getArray(0)
    val streams = column("raw_streams").getArray(0)
    val byGroup =
      (0 until written.numElements()).map(i => written.getInt(i) -> streams.getBinary(i)).toMap
    (groups.first to groups.last).foreach { group =>
      val old = backend.get(family, group, Key)
      byGroup.get(group) match {
        case Some(stream) =>
          if (!Arrays.equals(old, stream)) backend.put(family, group, Key, stream)
        case None => if (old != null) backend.remove(family, group, Key)
      }
    }
  }
}

private[keystate] object RawKeyedState {
  val FamilyName = "$raw_keyed"
  val FamilyLayout: Layout = Layout.Ordered
  val FamilyProperties: Map[String, String] = Map("kind" -> "raw_keyed")

  private val Key = Array.emptyByteArray

  /** Answers a new function instance's questions for its raw streams, one after the other. */
  final class Questions(
      state: RawKeyedState,
      others: StateServer.Answerer
  ) extends StateServer.Answerer {
    private implicit val formats: Formats = DefaultFormats

    override def apply(question: JObject, data: Array[Byte]): (JObject, Array[Byte]) =
      (question \ "op").extract[String] match {
        case "raw_keyed" =>
          state.next((question \ "from").extract[Int]) match {
            case Some((group, stream)) => ("group" -> group: JObject, stream)
            case None => (JObject(), Array.emptyByteArray)
          }
        case _ => others(question, data)
      }
  }
}
