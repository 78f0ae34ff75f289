package keystate

import java.sql.Timestamp

import scala.annotation.nowarn

import org.json4s._
import org.json4s.jackson.JsonMethods

import org.apache.spark.sql.Row

/** What a row of the table of behaviour cases says. */
final case class Step(
    name: String,
    number: Int,
    state: String,
    method: String,
    arguments: String,
    time: Timestamp
)

/** Does what the rows say with the states of the table, which are given as its JSON. */
@nowarn("cat=deprecation")
class Interpreter(states: String)
    extends KeyedProcessFunction[String, Step, (String, Int, String)] {
  private type Out = Collector[(String, Int, String)]

  @transient private var kept: Map[String, Any] = _

  override def open(ctx: RuntimeContext): Unit =
    kept = JsonMethods.parse(states).asInstanceOf[JObject].obj.toMap.map { case (name, declared) =>
      name -> state(ctx, name, declared)
    }

  override def processElement(step: Step, ctx: Context, out: Out): Unit = {
    val target = if (step.state == "timers") ctx.timerService() else kept(step.state)
    val values = JsonMethods.parse(step.arguments).asInstanceOf[JArray].arr.map(Json.read)
    val arguments = values match {
      case List(fields: Seq[_]) if step.state == "struct" => List(structOf(fields))
      case other => other
    }
    val result = Steps.perform(target, step.method, arguments) match {
      case all: IterableOnce[_] =>
        val items = all.iterator.map(Json.write).toList
        JArray(if (step.state == "map") items.sortBy(_.toString) else items)
      case other => Json.write(other)
    }
    out.collect((step.name, step.number, JsonMethods.compact(result)))
  }

  override def onTimer(time: Long, ctx: OnTimerContext, out: Out): Unit = {
    val clock = if (ctx.timeDomain() == TimeDomain.EVENT_TIME) "event" else "processing"
    val fired = Json.write(Seq[Any](clock, time, ctx.timerService().currentWatermark()))
    // As the one in tests/contract/behaviour_cases.py.
    val following = Map(7L -> 41, 8L -> -2).get(time % 10).filter(_ => clock == "event")
    following.foreach(later => ctx.timerService().registerEventTimeTimer(time + later))
    out.collect((ctx.getCurrentKey, -1, JsonMethods.compact(fired)))
  }

  private def structOf(fields: Seq[Any]): Row = fields match {
    case Seq(a: Long, b) => Row(a.toInt, b)
    case nulls => Row.fromSeq(nulls)
  }

  private def state(ctx: RuntimeContext, name: String, declared: JValue): Any = {
    def text(field: String): String = (declared \ field).values.toString
    def info(field: String) = TypeInformation.ddl[Any](text(field))
    text("kind") match {
      case "value" =>
        val default = declared \ "default" match {
          case JNothing => null
          case number => Json.read(number)
        }
        ctx.getState(new ValueStateDescriptor[Any](name, info("type"), default))
      case "list" => ctx.getListState(new ListStateDescriptor[Any](name, info("type")))
      case "map" =>
        ctx.getMapState(new MapStateDescriptor[Any, Any](name, info("key_type"), info("type")))
      case "sorted_map" =>
        val order = declared \ "order" match {
          case JString("descending") => KeyOrder.DESCENDING
          case JString("bytewise") => KeyOrder.BYTEWISE
          case _ => KeyOrder.NATURAL
        }
        ctx.getSortedMapState(
          new SortedMapStateDescriptor[Any, Any](name, order, info("key_type"), info("type"))
        )
      case "reducing" =>
        ctx.getReducingState(ReducingStateDescriptor[Long](name, (a: Long, b: Long) => a + b))
      case "aggregating" =>
        ctx.getAggregatingState(
          new AggregatingStateDescriptor(name, RowMean, TypeInformation.ddl[Row](text("type")))
        )
      case "folding" =>
        ctx.getFoldingState(
          FoldingStateDescriptor[Long, String](name, text("initial"), (all, n) => s"$all$n")
        )
    }
  }
}

/** What a table's steps do, by the names that they have there. */
object Steps {
  def perform(target: Any, method: String, arguments: List[Any]): Any =
    (target, method, arguments) match {
      case (state: State, "clear", Nil) => state.clear()
      case (state: ValueState[Any @unchecked], "value", Nil) => state.value()
      case (state: ValueState[Any @unchecked], "update", List(value)) => state.update(value)
      case (state: ListState[Any @unchecked], "add_all", List(all: Seq[_])) => state.addAll(all)
      case (state: ListState[Any @unchecked], "update", List(all: Seq[_])) => state.update(all)
      case (state: AppendingState[Any @unchecked, _], "add", List(value)) => state.add(value)
      case (state: AppendingState[_, _], "get", Nil) => state.get()
      case (map: SortedMapState[Any @unchecked, Any @unchecked], _, _) if ofSortedMaps(method) =>
        performSorted(map, method, arguments)
      case (map: MapState[Any @unchecked, Any @unchecked], _, _) =>
        performMap(map, method, arguments)
      case (timers: TimerService, _, _) => performTimer(timers, method, arguments)
      case other => throw new IllegalArgumentException(s"no such step: $other")
    }

  private def performMap(map: MapState[Any, Any], method: String, arguments: List[Any]): Any =
    (method, arguments) match {
      case ("get", List(key)) => map.get(key)
      case ("put", List(key, value)) => map.put(key, value)
      case ("put_all", List(entries: Map[_, _])) => map.putAll(entries)
      case ("remove", List(key)) => map.remove(key)
      case ("contains", List(key)) => map.contains(key)
      case ("items", Nil) => map.entries()
      case ("keys", Nil) => map.keys()
      case ("values", Nil) => map.values()
      case ("is_empty", Nil) => map.isEmpty()
      case other => throw new IllegalArgumentException(s"no such step: $other")
    }

  private def performSorted(
      map: SortedMapState[Any, Any],
      method: String,
      arguments: List[Any]
  ): Any = (method, arguments) match {
    case ("first_entry", Nil) => map.firstEntry()
    case ("last_entry", Nil) => map.lastEntry()
    case ("head_iterator", List(end)) => map.headIterator(end)
    case ("tail_iterator", List(start)) => map.tailIterator(start)
    case ("sub_iterator", List(start, end)) => map.subIterator(start, end)
    case ("floor_entry", List(key)) => map.floorEntry(key)
    case ("ceiling_entry", List(key)) => map.ceilingEntry(key)
    case ("pop_first", Nil) => map.popFirst()
    case ("remove_range", List(start, end)) => map.removeRange(start, end)
    case other => throw new IllegalArgumentException(s"no such step: $other")
  }

  private def performTimer(timers: TimerService, method: String, arguments: List[Any]): Any =
    (method, arguments) match {
      case ("register_event_time_timer", List(time: Long)) => timers.registerEventTimeTimer(time)
      case ("delete_event_time_timer", List(time: Long)) => timers.deleteEventTimeTimer(time)
      case ("register_processing_time_timer", List(time: Long)) =>
        timers.registerProcessingTimeTimer(time)
      case ("current_watermark", Nil) => timers.currentWatermark()
      case other => throw new IllegalArgumentException(s"no such step: $other")
    }

  private val ofSortedMaps = Set(
    "first_entry",
    "last_entry",
    "head_iterator",
    "tail_iterator",
    "sub_iterator",
    "floor_entry",
    "ceiling_entry",
    "pop_first",
    "remove_range"
  )
}

/** The mean of numbers, as count and total in a row. */
object RowMean extends AggregateFunction[Long, Row, Double] {
  override def createAccumulator(): Row = Row(0L, 0L)
  override def add(value: Long, mean: Row): Row = Row(mean.getLong(0) + 1, mean.getLong(1) + value)
  override def getResult(mean: Row): Double = mean.getLong(1).toDouble / mean.getLong(0)
  override def merge(a: Row, b: Row): Row =
    Row(a.getLong(0) + b.getLong(0), a.getLong(1) + b.getLong(1))
}

/** Values of states as the table has them. */
object Json {
  def read(json: JValue): Any = json match {
    case JInt(number) => number.toLong
    case JArray(items) => items.map(read)
    case JObject(fields) => fields.map { case (key, value) => key -> read(value) }.toMap
    case JNull => null
    case other => other.values
  }

  def write(value: Any): JValue = value match {
    case null | () => JNull
    case number: Long => JInt(number)
    case number: Int => JInt(number)
    case number: Double => JDouble(number)
    case truth: Boolean => JBool(truth)
    case text: String => JString(text)
    case MapEntry(key, value) => JArray(List(write(key), write(value)))
    case row: Row => JArray(row.toSeq.map(write).toList)
    case items: Seq[_] => JArray(items.map(write).toList)
    case other => throw new IllegalArgumentException(s"no JSON for $other")
  }
}
