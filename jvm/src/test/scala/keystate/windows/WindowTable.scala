package keystate.windows

import java.nio.file.Files
import java.sql.Timestamp
import java.time.Duration

import org.json4s._
import org.json4s.jackson.JsonMethods

import keystate.Repository

final case class Purchase(key: String, value: Long, time: Timestamp)

/** The tables that Python's windows pass too, and what they name: assigners, triggers, evictors. */
object WindowTable {
  def read(name: String): JValue =
    JsonMethods.parse(Files.readString(Repository.root.resolve(s"tests/contract/$name.json")))

  /** What a thing is called, and its arguments. */
  def split(json: JValue): (String, List[JValue]) =
    (json.children.head.values.toString, json.children.tail)

  def long(json: JValue): Long = json.values.toString.toLong

  private def millis(json: JValue): Duration = Duration.ofMillis(long(json))

  def assigner(json: JValue): WindowAssigner[Purchase, Window] = {
    val (name, arguments) = split(json)
    val times = arguments.map(millis)
    def gap = times.head
    def offset(at: Int) = times.lift(at).getOrElse(Duration.ZERO)
    val made: Any = name match {
      case "TumblingEventTimeWindows" => TumblingEventTimeWindows.of(gap, offset(1))
      case "TumblingProcessingTimeWindows" => TumblingProcessingTimeWindows.of(gap, offset(1))
      case "SlidingEventTimeWindows" => SlidingEventTimeWindows.of(gap, times(1), offset(2))
      case "SlidingProcessingTimeWindows" =>
        SlidingProcessingTimeWindows.of(gap, times(1), offset(2))
      case "EventTimeSessionWindows" => EventTimeSessionWindows.withGap(gap)
      case "ProcessingTimeSessionWindows" => ProcessingTimeSessionWindows.withGap(gap)
      case "GlobalWindows" => GlobalWindows.create()
      case other => unknown(other)
    }
    made.asInstanceOf[WindowAssigner[Purchase, Window]]
  }

  def trigger(json: JValue): Trigger[Purchase, Window] = {
    val (name, arguments) = split(json)
    name match {
      case "EventTimeTrigger" => EventTimeTrigger.create()
      case "ProcessingTimeTrigger" => ProcessingTimeTrigger.create()
      case "CountTrigger" => CountTrigger.of(long(arguments.head))
      case "ContinuousEventTimeTrigger" => ContinuousEventTimeTrigger.of(millis(arguments.head))
      case "ContinuousProcessingTimeTrigger" =>
        ContinuousProcessingTimeTrigger.of(millis(arguments.head))
      case "PurgingTrigger" => PurgingTrigger.of(trigger(arguments.head))
      case other => unknown(other)
    }
  }

  def evictor(json: JValue): Evictor[Purchase, Window] = {
    val (name, arguments) = split(json)
    val (limit, after) = (arguments.head, arguments.size > 1)
    name match {
      case "CountEvictor" => CountEvictor.of(long(limit).toInt, after)
      case "TimeEvictor" => TimeEvictor.of(millis(limit), after)
      case "DeltaEvictor" =>
        DeltaEvictor.of(
          limit.values.toString.toDouble,
          (old: Purchase, last: Purchase) => (last.value - old.value).toDouble,
          after
        )
      case other => unknown(other)
    }
  }

  private def unknown(name: String) = throw new IllegalArgumentException(s"the table has $name")
}
