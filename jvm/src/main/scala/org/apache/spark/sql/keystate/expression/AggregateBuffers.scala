package org.apache.spark.sql.keystate.expression

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{
  DeclarativeAggregate, ImperativeAggregate, NoOp, TypedImperativeAggregate
}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.types.{DataType, StringType}

import org.apache.spark.sql.keystate.encoding.StateRows

/** The buffers of aggregate functions: how they begin, take rows, are merged, stored and evaluated.
  * All functions of an operator share one row of buffers, as in Spark's own aggregation; the state
  * keeps a struct for each column. One thread at a time.
  *
  * Relies on the contract between Spark's aggregate functions and `AggregationIterator`: expressions
  * that begin, update, merge and evaluate the buffers of a `DeclarativeAggregate`; offsets in shared
  * rows for an `ImperativeAggregate`; and that a `TypedImperativeAggregate` keeps an object in its
  * field, which is turned into bytes in place before the row is stored.
  *
  * @param told
  *   the columns of a result that come before the functions' results: the key, and a window's bounds
  * @param late
  *   the columns of late rows, if a row of the output is a struct for results and one for these
  */
private[expression] final class AggregateBuffers(
    columns: Seq[AggregateColumn],
    input: AggregateInput,
    told: Seq[Attribute],
    late: Option[Seq[Attribute]]
) extends AutoCloseable {
  private val functions = columns.flatMap(_.functions)
  private val declared = functions.map(_.function)
  private val attributes: Seq[Attribute] = declared.flatMap(_.aggBufferAttributes)
  private val types: Array[DataType] = attributes.map(_.dataType).toArray
  private val offsets = declared.scanLeft(0)(_ + _.aggBufferAttributes.size)

  /** Whether a row of buffers is an `UnsafeRow` that is changed in place. */
  val isFixed: Boolean = types.forall(UnsafeRow.isMutable)

  private val imperative: Seq[(ImperativeAggregate, Int)] = declared.zipWithIndex.collect {
    case (own: ImperativeAggregate, i) => own.withNewMutableAggBufferOffset(offsets(i)) -> i
  }
  private val imperatives = imperative.map(_._1).toArray
  private val objects = imperatives.collect { case own: TypedImperativeAggregate[_] => own }

  /** How many keys or windows a task holds in memory before it writes them: some 50 MB of small ones.
    */
  val mostHeld: Int = if (isFixed) 1 << 17 else 1 << 13

  /** Nothing is open: it is kept from task to task as what can be closed is. */
  override def close(): Unit = ()

  /** Whether rows are added to buffers of their own. Only whole buffers are merged by Spark, and some
    * functions can't take a row after that.
    */
  private val isApart = objects.nonEmpty && input.isInstanceOf[AggregateInput.Rows]

  private val begin = MutableProjection.create(ofDeclarative(_.initialValues), Nil)
  private lazy val empty: InternalRow = {
    val row =
      if (isFixed) flat(new GenericInternalRow(types.length)).copy()
      else new SpecificInternalRow(types.toIndexedSeq)
    begin.target(row)(InternalRow.empty)
    imperatives.foreach(_.initialize(row))
    row
  }

  private val step: (InternalRow, InternalRow) => Unit = input match {
    case AggregateInput.Rows(read) => updating(read)
    case AggregateInput.Begun(before) => merging(before)
  }
  private val mergeStored = merging(Nil)

  private val unnest: UnsafeProjection =
    UnsafeProjection.create(columns.zipWithIndex.flatMap { case (column, i) =>
      val struct = BoundReference(i, column.stored.dataType, nullable = true)
      (0 until widthOf(column)).map(GetStructField(struct, _))
    })
  private val nest: UnsafeProjection = {
    val structs = columns.scanLeft(0)(_ + widthOf(_))
    UnsafeProjection.create(
      columns.zip(structs).map { case (column, from) =>
        CreateStruct(attributes.slice(from, from + widthOf(column)))
      },
      attributes
    )
  }
  private val stored = new UnsafeRow(columns.size)
  private lazy val flat = UnsafeProjection.create(types)

  private val made: UnsafeProjection = {
    val results = declared.map {
      case own: DeclarativeAggregate => own.evaluateExpression
      case own => AttributeReference(own.prettyName, own.dataType, own.nullable)()
    }
    val ofImperatives = imperative.map { case (_, i) => results(i).asInstanceOf[Attribute] }
    val output = late.fold(told ++ results) { columns =>
      val none = Literal(null, DataTypeUtils.fromAttributes(columns))
      Seq(CreateStruct(told ++ results), none)
    }
    UnsafeProjection.create(output, told ++ attributes ++ ofImperatives)
  }
  private val evaluated = new GenericInternalRow(imperatives.length)
  private val held = new JoinedRow
  private val joined = new JoinedRow

  /** New buffers of no rows. */
  def create(): Buffers = new Buffers(if (isApart) null else newBuffers(), null)

  /** Adds a row of the input. */
  def add(buffers: Buffers, row: InternalRow): Unit =
    if (isApart) {
      if (buffers.added == null) buffers.added = newBuffers()
      step(buffers.added, row)
    } else step(buffers.merged, row)

  /** Merges other buffers into the first ones. The others must not be used again. */
  def merge(buffers: Buffers, others: Buffers): Unit = {
    if (buffers.merged == null) buffers.merged = newBuffers()
    mergeStored(buffers.merged, copied(whole(others)))
  }

  /** The buffers in a stored value. */
  def read(value: Array[Byte]): Buffers = {
    StateRows.point(stored, value)
    read(stored)
  }

  /** The buffers in the row of a stored value. A column that came after it was stored is null in it,
    * and begins now.
    */
  def read(value: UnsafeRow): Buffers = {
    val before = unnest(if (value.anyNull) completed(value) else value)
    val row =
      if (isFixed) before.copy()
      else {
        val row = newBuffers()
        mergeStored(row, before)
        row
      }
    new Buffers(row, null)
  }

  /** The value that is stored. The buffers must not be used again. */
  def write(buffers: Buffers): Array[Byte] = StateRows.encode(nest(serialized(whole(buffers))))

  private lazy val sending =
    UnsafeProjection.create(told ++ attributes, told ++ attributes)

  /** The buffers as they are sent on, after these columns. They must not be used again. */
  def sent(before: InternalRow, buffers: Buffers): UnsafeRow =
    sending(held(before, serialized(whole(buffers))))

  /** The functions' results, after these columns. The same row each time. */
  def results(before: InternalRow, buffers: Buffers): UnsafeRow = {
    val row = whole(buffers)
    var i = 0
    while (i < imperatives.length) {
      evaluated.update(i, imperatives(i).eval(row))
      i += 1
    }
    made(joined(held(before, row), evaluated))
  }

  private lazy val begun: InternalRow = nest(serialized(newBuffers())).copy()

  /** The buffers of all rows. */
  private def whole(buffers: Buffers): InternalRow = {
    if (buffers.merged == null && buffers.added == null) buffers.merged = newBuffers()
    if (buffers.merged != null && buffers.added != null) {
      mergeStored(buffers.merged, copied(buffers.added))
      buffers.added = null
    }
    if (buffers.merged != null) buffers.merged else buffers.added
  }

  private def serialized(row: InternalRow): InternalRow = {
    objects.foreach(_.serializeAggregateBufferInPlace(row))
    row
  }

  /** Some functions give the bytes of a projection, which the next ones are written over: merged
    * buffers would point there.
    */
  private def copied(row: InternalRow): InternalRow =
    if (objects.isEmpty) row else flat(serialized(row))

  /** To make fields of their types, Spark reads its configuration: so they are copied. */
  private def newBuffers(): InternalRow = empty match {
    case fields: SpecificInternalRow =>
      val row = new SpecificInternalRow(fields.values.map(_.copy()))
      imperatives.foreach(_.initialize(row)) // their objects are their own
      row
    case fixed => fixed.copy()
  }

  private def completed(stored: InternalRow): InternalRow = {
    val row = new GenericInternalRow(columns.size)
    columns.indices.foreach { i =>
      val source = if (stored.isNullAt(i)) begun else stored
      row.update(i, source.getStruct(i, widthOf(columns(i))))
    }
    row
  }

  private def widthOf(column: AggregateColumn): Int =
    column.functions.map(_.function.aggBufferAttributes.size).sum

  /** One expression for each buffer; the generated code leaves those of the others alone. */
  private def ofDeclarative(of: DeclarativeAggregate => Seq[Expression]): Seq[Expression] =
    declared.flatMap {
      case own: DeclarativeAggregate => of(own)
      case own => own.aggBufferAttributes.map(_ => NoOp)
    }

  /** For each buffer the filter of its function. Two functions may be equal but for their filters. */
  private def filtersOfBuffers: Seq[Option[Attribute]] =
    functions.flatMap(each => each.function.aggBufferAttributes.map(_ => each.filter))

  private def updating(read: Seq[Attribute]): (InternalRow, InternalRow) => Unit = {
    val expressions = ofDeclarative(_.updateExpressions).zip(filtersOfBuffers).zip(attributes).map {
      case ((update, Some(filter)), buffer) if update ne NoOp => If(filter, update, buffer)
      case ((update, _), _) => update
    }
    val bound = imperative.map { case (own, i) =>
      val column =
        functions(i).filter.fold(-1)(filter => read.indexWhere(_.exprId == filter.exprId))
      val updated =
        BindReferences.bindReference(own: Expression, read).asInstanceOf[ImperativeAggregate]
      updated.withNewMutableAggBufferOffset(offsets(i)) -> column
    }.toArray
    stepping(expressions, read) { (buffers, row) =>
      var i = 0
      while (i < bound.length) {
        val (own, filter) = bound(i)
        if (filter < 0 || !row.isNullAt(filter) && row.getBoolean(filter)) own.update(buffers, row)
        i += 1
      }
    }
  }

  /** @param before
    *   the columns before the buffers
    */
  private def merging(before: Seq[Attribute]): (InternalRow, InternalRow) => Unit = {
    val others = imperative.map { case (own, i) =>
      own.withNewInputAggBufferOffset(before.size + offsets(i))
    }.toArray
    stepping(
      ofDeclarative(_.mergeExpressions),
      before ++ declared.flatMap(_.inputAggBufferAttributes)
    ) { (buffers, row) =>
      var i = 0
      while (i < others.length) {
        others(i).merge(buffers, row)
        i += 1
      }
    }
  }

  private def stepping(expressions: Seq[Expression], read: Seq[Attribute])(
      ofImperatives: (InternalRow, InternalRow) => Unit
  ): (InternalRow, InternalRow) => Unit = {
    val both = new JoinedRow
    val projection = MutableProjection.create(expressions, attributes ++ read)
    val isImperative = imperatives.length == declared.size
    // Spark's projection without generated code keeps these as part of the row that they came in.
    val uncopied = projection match {
      case _: InterpretedMutableProjection =>
        types.indices.filter(i => types(i).isInstanceOf[StringType] && types(i) != StringType)
      case _ => Nil
    }
    (buffers, row) => {
      if (!isImperative) projection.target(buffers)(both(buffers, row)): Unit
      if (uncopied.nonEmpty) uncopied.filterNot(buffers.isNullAt).foreach { i =>
        buffers.update(i, buffers.getUTF8String(i).copy())
      }
      ofImperatives(buffers, row)
    }
  }
}

/** The buffers of a key or a window: those that were merged, and those of rows that came since, if
  * they are apart. Either may be null.
  */
private[expression] final class Buffers(var merged: InternalRow, var added: InternalRow)

/** Begins buffers with one row. */
private[keystate] final class BegunRow(
    grouping: Seq[Attribute],
    functions: Seq[FilteredFunction],
    columns: Seq[Attribute]
) {
  private val group = UnsafeProjection.create(grouping, columns)
  private val aggregates = Seq(AggregateColumn("", functions))
  private val buffers =
    new AggregateBuffers(aggregates, AggregateInput.Rows(columns), grouping, None)

  /** The columns of the group, and the buffers. The same row each time. */
  def apply(row: InternalRow): UnsafeRow = {
    val begun = buffers.create()
    buffers.add(begun, row)
    buffers.sent(group(row), begun)
  }
}
