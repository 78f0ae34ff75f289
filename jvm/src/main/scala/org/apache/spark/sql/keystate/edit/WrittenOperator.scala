package org.apache.spark.sql.keystate.edit

import java.util.{List => JList}

import scala.jdk.CollectionConverters._

import org.json4s.{DefaultFormats, Formats, JValue}

import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{Column, Dataset}

import org.apache.spark.sql.keystate.plan.OperatorInput
import org.apache.spark.sql.keystate.spec.OperatorSpec

/** An operator whose state is written.
  *
  * @param number
  *   its number in the new checkpoint
  * @param from
  *   its number in the edited checkpoint. None if it is new
  * @param hasRun
  *   whether it is new, and replaces an operator that a query has had
  * @param keys
  *   a stream with the key columns, without rows
  * @param required
  *   the names of the key columns that are never null; those of `keys` always may be
  * @param spec
  *   the operator, with only its states that have `states`; a time mode of "" keeps the old one
  * @param kept
  *   by name the parts that stay unchanged, and their new names: states, timers and raw keyed state
  * @param states
  *   the rows of new states
  * @param lists
  *   the operator state. None if there is none
  */
private[keystate] final case class WrittenOperator(
    number: Long,
    from: Option[Long],
    hasRun: Boolean,
    keys: OperatorInput,
    required: Set[String],
    spec: OperatorSpec,
    kept: Map[String, String],
    states: Seq[StateRowsOf],
    lists: Option[WrittenLists]
) {

  /** The key columns as they are declared. */
  def keySchema: StructType = StructType(DataTypeUtils.fromAttributes(keys.keys).map { column =>
    column.copy(nullable = !required(column.name))
  })
}

/** The operator state of all subtasks.
  *
  * @param types
  *   JSON of the types of the lists' elements; None if none is declared
  * @param subtasks
  *   of each subtask what [[keystate.checkpoint.OperatorState]] describes
  */
private[keystate] final case class WrittenLists(types: Option[String], subtasks: Seq[String])

private[keystate] object WrittenOperator {
  private implicit val formats: Formats = DefaultFormats

  /** The operators in a plan that Python made.
    *
    * @param operators
    *   JSON of each; the lists that follow have an element for each of them
    */
  def all(
      operators: Seq[JValue],
      streams: JList[Dataset[_]],
      keys: JList[JList[Column]],
      states: JList[JList[Dataset[_]]]
  ): Seq[WrittenOperator] = operators.zipWithIndex.map { case (json, i) =>
    val spec = OperatorSpec.fromJson((json \ "spec").extract[String])
    val names = (json \ "rows").extract[List[String]]
    WrittenOperator(
      (json \ "number").extract[Long],
      (json \ "from").extractOpt[Long],
      (json \ "hasRun").extract[Boolean],
      OperatorInput
        .byColumns(streams.get(i).asInstanceOf[ClassicDataset[_]], keys.get(i).asScala.toSeq),
      (json \ "required").extract[Set[String]],
      spec,
      (json \ "kept").extract[Map[String, String]],
      names.zip(states.get(i).asScala).map { case (name, df) =>
        StateRowsOf(name, (spec.states ++ spec.broadcast).find(_.name == name), df.toDF())
      },
      (json \ "lists").toOption.map { lists =>
        WrittenLists(
          (lists \ "types").extractOpt[String],
          (lists \ "subtasks").extract[List[String]]
        )
      }
    )
  }
}
