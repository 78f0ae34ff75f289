package org.apache.spark.sql.keystate.plan

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.types._

import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.encoding.StoredOrder
import org.apache.spark.sql.keystate.expression.{AsOfJoin, AsOfLeft, AsOfRight}
import org.apache.spark.sql.keystate.operator.{InputRole, InputRows}
import org.apache.spark.sql.keystate.spec.{OperatorSpec, StateKind, StateSpec, TimeMode}

/** Plans an as-of join of two keyed inputs as an operator whose body is Spark's expressions. */
private[keystate] object AsOfPlan {

  def of(left: OperatorInput, right: OperatorInput, spec: AsOfSpec): LogicalPlan = {
    val plan = new AsOfPlan(left, right, spec).plan
    SideOutput.noted(plan, spec.late) { names =>
      of(left, right, spec.copy(late = spec.late.map(_.among(names))))
    }
  }
}

private final class AsOfPlan(left: OperatorInput, right: OperatorInput, spec: AsOfSpec) {
  private val isStreaming = left.child.isStreaming
  private val ofStreams = isStreaming && right.child.isStreaming
  private val lookedUp = new JoinedInput(right, "right")
  private val leftTime = new JoinedInput(left, "left").time(spec.leftOn)
  private val rightTime = lookedUp.time(spec.rightOn)
  private val deleted = spec.deleted.map(lookedUp.column(_, BooleanType))

  /** The right columns of the output: not the key, which is the left row's, nor a time of one name. */
  private val shown: Seq[Attribute] = right.columns.filterNot { column =>
    right.keys.exists(_.exprId == column.exprId) ||
    column.exprId == rightTime.exprId && column.name == leftTime.name ||
    deleted.exists(_.exprId == column.exprId)
  }

  def plan: LogicalPlan = {
    check()
    val orders = right.rows.order.zipWithIndex.map { case (order, i) =>
      order -> Alias(order.child, s"_order$i")()
    }
    val hidden = if (shown.exists(_.exprId == rightTime.exprId)) Nil else Seq(rightTime)
    val flags = deleted.map(Alias(_, "_deleted")()).toSeq
    val made = flags ++ orders.map(_._2)
    val rows = Project((shown ++ hidden ++ right.keys).distinct ++ made, right.child)
    val read = shown ++ hidden ++ made.map(_.toAttribute)
    val renewed = OperatorInput(rows, InputRows(right.keys, read, Nil))
    val order = orders.map { case (order, alias) =>
      order.copy(child = alias.toAttribute, sameOrderExpressions = Nil)
    }
    val join = AsOfJoin(
      AsOfLeft(left.columns, left.columns.indexWhere(_.exprId == leftTime.exprId)),
      AsOfRight(
        read,
        shown.size,
        read.indexWhere(_.exprId == rightTime.exprId),
        flags.headOption.map(flag => read.indexWhere(_.exprId == flag.exprId)),
        order
      ),
      spec.matching,
      waits,
      spec.inner,
      spec.readsLate
    )
    val main = StructType(left.columns.map(OperatorInput.field) ++ shown.map(rightField))
    KeyedProcess.of(
      join,
      left.copy(rows = left.rows.copy(order = Nil)),
      Some(renewed -> InputRole.Ahead),
      SideOutput.schema(main, spec.late -> DataTypeUtils.fromAttributes(left.columns)),
      operator(join)
    )
  }

  private def waits = spec.waits && ofStreams

  private def operator(join: AsOfJoin): OperatorSpec = {
    def state(name: String, key: DataType, value: StructType) =
      StateSpec(name, StateKind.SortedMap, "sorted map", value, Some(key), StoredOrder.Natural)
    // Also where rows don't wait: some may, from before a restart.
    val waiting =
      Option.when(isStreaming)(state(AsOfJoin.LeftRows, AsOfJoin.LeftKey, join.left.stored))
    OperatorSpec(
      spec.name,
      spec.maxParallelism,
      if (isStreaming) TimeMode.EventTime else TimeMode.NoTime,
      timers = true,
      state(AsOfJoin.RightRows, TimestampType, join.right.stored) +: waiting.toSeq,
      sideOutputs = spec.readsLate,
      lateOutputs = if (spec.readsLate) Seq(Some(1), None) else Nil,
      outputDelay = if (waits && spec.matching.looksAhead) delay else 0
    )
  }

  /** How far results may be behind the watermark, in ms. */
  private def delay: Long = (spec.matching.tolerance.get + 999) / 1000

  private def check(): Unit = {
    def refuse(problem: String) = throw KeystateErrors.declaration(problem)
    if (!isStreaming && right.child.isStreaming)
      refuse("A table can't be joined as of a stream: exchange the sides, or make both streams.")
    if (ofStreams && spec.matching.looksAhead && spec.matching.tolerance.isEmpty)
      refuse(
        s"direction '${spec.matching.direction}' on streams needs a tolerance: without one a row " +
          "would wait for ever."
      )
    if (waits) JoinedInput.checkPolicy()
    val names = left.columns.map(_.name) ++ shown.map(rightField(_).name)
    JoinedInput.checkNames(names, "give another suffix")
  }

  private def rightField(column: Attribute): StructField = {
    val taken = left.columns.exists(_.name.equalsIgnoreCase(column.name))
    val name = if (taken) s"${column.name}${spec.suffix}" else column.name
    StructField(name, column.dataType)
  }
}
