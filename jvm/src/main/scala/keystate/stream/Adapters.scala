package keystate.stream

import keystate.{
  Collector, FilterFunction, FlatMapFunction, KeyedProcessFunction, MapFunction, ReduceFunction,
  ReducingState, ReducingStateDescriptor, RichFunction, RuntimeContext, SinkFunction,
  TypeInformation, ValueState, ValueStateDescriptor
}
import org.apache.spark.sql.keystate.jvm.FunctionAdapter

/** Adapts another kind of function to [[KeyedProcessFunction]]. It also serves streams without
  * keys, because the adapted functions do not ask for a key.
  */
private[keystate] abstract class Adapter[IN, OUT](function: AnyRef)
    extends KeyedProcessFunction[Any, IN, OUT]
    with FunctionAdapter {
  override def adapted: AnyRef = function

  override def open(context: RuntimeContext): Unit = RichFunction.open(function, context)
  override def close(): Unit = RichFunction.close(function)
}

private[keystate] final class FlatMapAdapter[IN, OUT](function: FlatMapFunction[IN, OUT])
    extends Adapter[IN, OUT](function) {
  override def processElement(value: IN, ctx: Context, out: Collector[OUT]): Unit =
    function.flatMap(value, out)
}

private[keystate] final class MapAdapter[IN, OUT](function: MapFunction[IN, OUT])
    extends Adapter[IN, OUT](function) {
  override def processElement(value: IN, ctx: Context, out: Collector[OUT]): Unit =
    out.collect(function.map(value))
}

private[keystate] final class FilterAdapter[T](function: FilterFunction[T])
    extends Adapter[T, T](function) {
  override def processElement(value: T, ctx: Context, out: Collector[T]): Unit =
    if (function.filter(value)) out.collect(value)
}

/** Emits nothing. */
private[keystate] final class SinkAdapter[T](function: SinkFunction[T])
    extends Adapter[T, Boolean](function) {
  override def processElement(value: T, ctx: Context, out: Collector[Boolean]): Unit =
    function.invoke(
      value,
      new SinkFunction.Context {
        override def currentProcessingTime(): Long = ctx.timerService().currentProcessingTime()
        override def currentWatermark(): Long = ctx.timerService().currentWatermark()
        override def timestamp(): java.lang.Long = ctx.timestamp()
      }
    )
}

/** Keeps the result so far in a state named `_reduce`.
  *
  * @param rolling
  *   whether it emits the result so far for every element, as streams do. If not, it emits one
  *   result for each key, by a timer: a batch fires its timers when its input has ended
  */
private[keystate] final class ReduceAdapter[T](
    function: ReduceFunction[T],
    valueType: TypeInformation[T],
    rolling: Boolean
) extends Adapter[T, T](function) {
  @transient private var result: ReducingState[T] = _

  override def open(context: RuntimeContext): Unit = {
    super.open(context)
    result = context.getReducingState(new ReducingStateDescriptor("_reduce", function, valueType))
  }

  override def processElement(value: T, ctx: Context, out: Collector[T]): Unit = {
    result.add(value)
    if (rolling) out.collect(result.get())
    else ctx.timerService().registerEventTimeTimer(0)
  }

  override def onTimer(timestamp: Long, ctx: OnTimerContext, out: Collector[T]): Unit =
    out.collect(result.get())
}

/** A function of an element and the key's state: results, and the state to keep. */
private[keystate] final class WithState[IN, OUT, S](
    function: (IN, Option[S]) => (IterableOnce[OUT], Option[S]),
    stateType: TypeInformation[S]
) extends Adapter[IN, OUT](function) {
  @transient private var state: ValueState[Any] = _

  override def open(context: RuntimeContext): Unit =
    // Typed as Any: a missing primitive must stay null.
    state = context
      .getState(new ValueStateDescriptor("state", stateType))
      .asInstanceOf[ValueState[Any]]

  override def processElement(value: IN, ctx: Context, out: Collector[OUT]): Unit = {
    val (results, next) = function(value, Option(state.value()).asInstanceOf[Option[S]])
    next match {
      case Some(kept) => state.update(kept)
      case None => state.clear()
    }
    results.iterator.foreach(out.collect)
  }
}
