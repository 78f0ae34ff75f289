package org.apache.spark.sql.keystate.jvm

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.streaming.DataStreamWriter
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{DataFrame, Dataset}

import keystate.errors.KeystateErrors
import keystate.{OutputTag, SideWrite}
import org.apache.spark.sql.keystate.operator.OperatorFunction
import org.apache.spark.sql.keystate.plan.{KeyedProcess, Names, SideOutput}
import org.apache.spark.sql.keystate.spec.OperatorSpec

/** The side outputs of a Dataset that a function made: the function's plan, with more columns. */
object SideOutputs {

  /** Main output and side outputs in one DataFrame: a struct column `main`, and one for each tag. */
  def all(data: Dataset[_], tags: Seq[OutputTag[_]]): DataFrame = {
    val df = ScalaBridge.classic(data)
    checkNames(tags)
    val side = tags.map(Outputs.Side(_))
    val plan = df.queryExecution.logical match {
      case process: KeyedProcess =>
        val (function, spec) = reading(process.function, process.spec, side)
        process.emitting(function, function.outputs.schema, spec)
      case other =>
        SideOutput.reading(other, tags.map(_.id)).getOrElse(throw noFunction(other))
    }
    ClassicDataset.ofRows(df.sparkSession, plan)
  }

  /** One output of such a DataFrame. */
  def only(all: DataFrame, id: String): DataFrame = {
    val column = s"`${id.replace("`", "``")}`"
    all.where(col(column).isNotNull).select(s"$column.*")
  }

  def only[T](all: DataFrame, tag: OutputTag[T]): Dataset[T] =
    only(all, tag.id).as[T](tag.typeInfo.encoder)

  /** Writes main output and side outputs in one query, from one run of the function. */
  def write[T](
      data: Dataset[T],
      main: Option[(Dataset[T], Long) => Unit],
      side: Seq[SideWrite[_]]
  ): DataStreamWriter[_] = {
    if (!data.isStreaming)
      throw KeystateErrors.declaration("writeOutputs needs a stream; see withSideOutputs.")
    def writeAll(batch: DataFrame, id: Long): Unit = {
      batch.persist()
      try {
        // All of it, whatever the functions read: a skipped partition would be uncommitted state.
        batch.count()
        main.foreach(_(only(batch, Outputs.Main).as[T](ScalaBridge.classic(data).encoder), id))
        side.foreach(writeOne(_, batch, id))
      } finally
        batch.unpersist(): Unit
    }
    all(data, side.map(_.tag)).writeStream.foreachBatch(writeAll _)
  }

  private def writeOne[T](side: SideWrite[T], batch: DataFrame, id: Long): Unit =
    side.function(only(batch, side.tag), id)

  /** Throws if late rows of these columns can't go to a side output. */
  def checkLate(tag: OutputTag[_], late: Seq[Attribute]): Unit = {
    def columns(struct: StructType) = struct.asNullable.map(f => (f.name, f.dataType))
    val rows = DataTypeUtils.fromAttributes(late)
    val taken = Outputs.Side(tag).encoder.schema
    if (columns(taken) != columns(rows))
      throw KeystateErrors.declaration(
        s"Side output '${tag.id}' takes ${taken.catalogString}, but late rows are " +
          s"${rows.catalogString}."
      )
  }

  private def reading(
      function: OperatorFunction,
      spec: OperatorSpec,
      side: Seq[Outputs.Side]
  ): (JvmFunction, OperatorSpec) = function match {
    case own: JvmFunction =>
      val late = own.late.map(_.map(id => side.indexWhere(_.id == id)).filter(_ >= 0))
      // The main output is the first.
      (own.reading(side), spec.copy(sideOutputs = true, lateOutputs = late.map(_.map(_ + 1))))
    case other => throw noFunction(other)
  }

  private def checkNames(tags: Seq[OutputTag[_]]): Unit = {
    val names = Outputs.Main +: tags.map(_.id)
    if (tags.exists(_.id.isEmpty))
      throw KeystateErrors.declaration("A side output needs a name.")
    Names.repeated(names).foreach { name =>
      throw KeystateErrors.declaration(
        s"Two outputs are named '$name': names differ in more than upper and lower case, and " +
          s"'${Outputs.Main}' is the main output."
      )
    }
  }

  private def noFunction(found: Any): Throwable = {
    val what = found match {
      case plan: LogicalPlan => plan.nodeName
      case other => other.getClass.getSimpleName
    }
    KeystateErrors.declaration(
      "Side outputs are had from the Dataset that process returned, before anything else is " +
        s"applied to it; this one is of $what."
    )
  }
}
