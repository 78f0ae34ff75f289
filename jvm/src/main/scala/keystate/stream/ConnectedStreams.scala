package keystate.stream

import org.apache.spark.sql.{Column, Dataset}

import keystate.errors.KeystateErrors
import keystate.{
  CoFlatMapFunction, CoMapFunction, Collector, KeyedCoProcessFunction, RichFunction, RuntimeContext,
  TypeInformation
}
import org.apache.spark.sql.keystate.jvm.{ConnectedData, FunctionAdapter, ScalaBridge}

/** Two keyed Datasets whose elements share the state and the timers of a key; made by `connect`.
  * Name, time mode and key groups are those of the first Dataset. Both have the same number of key
  * columns, of the same types in the same order, else `KEYSTATE_DECLARATION`.
  *
  * Both are streams, or both are batch Datasets, or one is a stream and the other a batch Dataset.
  * In the last case the batch elements come once, before those of the first micro-batch in which
  * the operator has the batch Dataset. Otherwise, in each micro-batch, elements of the first
  * Dataset come before those of the second, unless `orderedBy` is set.
  */
sealed abstract class ConnectedStreams[A, B] private[keystate] (
    first: KeyedRowStream[A],
    second: KeyedRowStream[B],
    by: Option[(Column, Column)]
) {
  protected type Self <: ConnectedStreams[A, B]
  protected def sorted(by: (Column, Column)): Self

  /** Sorts the elements of a key, within a micro-batch, by this column, which both Datasets have.
    * Among equal elements those of the first Dataset come first.
    */
  def orderedBy(column: String): Self =
    orderedBy(first.data.col(column), second.data.col(column))

  /** Sorts the elements of a key, within a micro-batch, by an expression over a row of each
    * Dataset; both expressions have the same type and direction. Among equal elements those of the
    * first Dataset come first.
    */
  def orderedBy(ofFirst: Column, ofSecond: Column): Self = sorted((ofFirst, ofSecond))

  /** Maps each element to one result. */
  def map[OUT: TypeInformation](function: CoMapFunction[A, B, OUT]): Dataset[OUT] =
    run(new CoMapAdapter(function), TypeInformation.row)

  /** Maps each element to any number of results. */
  def flatMap[OUT: TypeInformation](function: CoFlatMapFunction[A, B, OUT]): Dataset[OUT] =
    run(new CoFlatMapAdapter(function), TypeInformation.row)

  protected def run[OUT](function: RichFunction, keyType: TypeInformation[_])(implicit
      out: TypeInformation[OUT]
  ): Dataset[OUT] = {
    val groups = (first.settings.maxParallelism ++ second.settings.maxParallelism).toSeq.distinct
    if (groups.size > 1)
      throw KeystateErrors.declaration(
        s"Two streams that are connected have the same max parallelism, not ${groups.head} and " +
          s"${groups(1)}."
      )
    ScalaBridge.process(
      first.keyedData(by.map(_._1)),
      Some(ConnectedData(second.keyedData(by.map(_._2)), merged = by.nonEmpty)),
      function,
      Some(keyType),
      out,
      first.settings.operator.copy(maxParallelism = groups.headOption)
    )
  }
}

/** Two connected Datasets, the first of which is keyed by a function. */
final class ConnectedKeyedStreams[A, B, K] private[keystate] (
    first: KeyedStream[A, K],
    second: KeyedRowStream[B],
    keyType: TypeInformation[K],
    by: Option[(Column, Column)] = None
) extends ConnectedStreams[A, B](first, second, by) {
  override protected type Self = ConnectedKeyedStreams[A, B, K]
  override protected def sorted(by: (Column, Column)): Self =
    new ConnectedKeyedStreams(first, second, keyType, Some(by))

  /** The function's results. Fails as [[KeyedStream.process]] does. */
  def process[OUT](function: KeyedCoProcessFunction[K, A, B, OUT])(implicit
      out: TypeInformation[OUT]
  ): Dataset[OUT] = run(function, keyType)
}

/** Two connected Datasets, the first of which is keyed by columns. */
final class ConnectedKeyedDatasets[A, B] private[keystate] (
    first: KeyedDataset[A],
    second: KeyedRowStream[B],
    by: Option[(Column, Column)] = None
) extends ConnectedStreams[A, B](first, second, by) {
  override protected type Self = ConnectedKeyedDatasets[A, B]
  override protected def sorted(by: (Column, Column)): Self =
    new ConnectedKeyedDatasets(first, second, Some(by))

  /** The function's results. Fails as [[KeyedStream.process]] does.
    *
    * @tparam K
    *   the type of the one key column; for several key columns, a `Row`, tuple or case class
    */
  def process[K, OUT](
      function: KeyedCoProcessFunction[K, A, B, OUT]
  )(implicit keyType: TypeInformation[K], out: TypeInformation[OUT]): Dataset[OUT] =
    run(function, keyType)
}

/** Adapts another kind of function to [[KeyedCoProcessFunction]]. */
private[keystate] abstract class CoAdapter[A, B, OUT](function: AnyRef)
    extends KeyedCoProcessFunction[Any, A, B, OUT]
    with FunctionAdapter {
  override def adapted: AnyRef = function
  override def open(context: RuntimeContext): Unit = RichFunction.open(function, context)
  override def close(): Unit = RichFunction.close(function)
}

private[keystate] final class CoMapAdapter[A, B, OUT](function: CoMapFunction[A, B, OUT])
    extends CoAdapter[A, B, OUT](function) {
  override def processElement1(value: A, ctx: Context, out: Collector[OUT]): Unit =
    out.collect(function.map1(value))
  override def processElement2(value: B, ctx: Context, out: Collector[OUT]): Unit =
    out.collect(function.map2(value))
}

private[keystate] final class CoFlatMapAdapter[A, B, OUT](function: CoFlatMapFunction[A, B, OUT])
    extends CoAdapter[A, B, OUT](function) {
  override def processElement1(value: A, ctx: Context, out: Collector[OUT]): Unit =
    function.flatMap1(value, out)
  override def processElement2(value: B, ctx: Context, out: Collector[OUT]): Unit =
    function.flatMap2(value, out)
}
