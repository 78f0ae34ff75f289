package org.apache.spark.sql.keystate.python.simulation

import scala.collection.immutable.TreeMap
import scala.math.Ordering.Implicits._

import org.apache.spark.sql.keystate.python.simulation.KeyModel.Timer

/** What a key's states are to be. */
private[simulation] final case class KeyModel(
    value: Option[Long] = None,
    list: Vector[Long] = Vector.empty,
    map: Map[String, Long] = Map.empty,
    sorted: TreeMap[Long, Long] = TreeMap.empty,
    timers: Set[Timer] = Set.empty
) {
  import KeyModel._

  /** What a row makes of it, and tells. */
  def after(row: Row): (KeyModel, Told) = {
    val (model, told) = row.steps.foldLeft((this, Vector.empty[String => Boolean])) {
      case ((model, told), step) =>
        val (next, more) = steps(step.name)(model, step.a, step.b)
        (next, told ++ more)
    }
    (model, new Told(told))
  }

  /** What a timer that fires makes of it, and what that tells. */
  private def fired(timer: Timer): (KeyModel, String) = {
    val next = copy(
      value = Some(timer.time),
      list = list :+ timer.time,
      map = map + ((timer.time % 7).toString -> timer.time),
      timers = timers - timer ++ following(timer)
    )
    (next, s"${timer.domain}@${timer.time} ${value.fold("None")(_.toString)}")
  }

  /** What the timers that are due make of it, those too that others set, and what they tell. One that
    * is set at or before the time of the one that sets it waits for the next micro-batch.
    */
  def passed(watermark: Long, clock: Long): (KeyModel, Seq[String]) = {
    var (model, told, waiting) = (this, Vector.empty[String], Set.empty[Timer])
    def next = model.due(watermark, clock).find(timer => !waiting(timer))
    var timer = next
    while (timer.nonEmpty) {
      val left = model.timers - timer.get
      waiting ++= following(timer.get).filter { set =>
        !left(set) && (set.time, set.domain) <= (timer.get.time, timer.get.domain)
      }
      val (after, result) = model.fired(timer.get)
      model = after
      told :+= result
      timer = next
    }
    (model, told)
  }

  /** The timers up to these times, in their order. */
  private def due(watermark: Long, clock: Long): Seq[Timer] =
    timers.toSeq
      .filter(timer => timer.time <= (if (timer.domain == 0) watermark else clock))
      .sortBy(timer => (timer.time, timer.domain))

  def isEmpty: Boolean = this == KeyModel()
}

/** What a row's function must tell. */
private[simulation] final class Told(parts: Seq[String => Boolean]) {
  def fits(result: String): Boolean = {
    val found = if (parts.isEmpty) Array.empty[String] else result.split("\\|", -1)
    found.length == parts.size && found.zip(parts).forall { case (part, fits) => fits(part) } &&
    (parts.nonEmpty || result.isEmpty)
  }
}

private[simulation] object KeyModel {

  /** @param domain
    *   0 for event time, 1 for processing time
    */
  final case class Timer(domain: Int, time: Long)

  /** What a timer that fires sets, as tests/conversation/function.py does. */
  private def following(timer: Timer): Option[Timer] =
    Map(0L -> 5, 5L -> 3, 8L -> -2)
      .get(Math.floorMod(timer.time, 20L))
      .map(later => timer.copy(time = timer.time + later))

  private type Effect = (KeyModel, Long, Long) => (KeyModel, Option[String => Boolean])

  private def is(text: String): Option[String => Boolean] = Some(_ == text)

  private def changes(change: (KeyModel, Long, Long) => KeyModel): Effect =
    (model, a, b) => (change(model, a, b), None)

  private def tells(told: (KeyModel, Long, Long) => String): Effect =
    (model, a, b) => (model, is(told(model, a, b)))

  /** What a step tells where there is nothing. */
  private def orNothing(found: Option[Long]): Option[String => Boolean] =
    found.flatMap(value => is(value.toString))

  private def text[K](entries: Iterable[(K, Long)]): String =
    entries.map { case (key, value) => s"$key=$value" }.mkString(" ")

  private def flag(is: Boolean) = if (is) "1" else "0"

  /** The steps that a function can do, by their names in Python. */
  val steps: Map[String, Effect] = Map(
    "get" -> ((m, _, _) => (m, orNothing(m.value))),
    "set" -> changes((m, a, _) => m.copy(value = Some(a))),
    "add" -> changes((m, a, _) => m.copy(value = Some(m.value.getOrElse(0L) + a))),
    "unset" -> changes((m, _, _) => m.copy(value = None)),
    "list_get" -> tells((m, _, _) => m.list.mkString(" ")),
    "list_add" -> changes((m, a, _) => m.copy(list = m.list :+ a)),
    "list_add_all" -> changes((m, a, b) => m.copy(list = m.list ++ (a until a + b))),
    "list_update" -> changes((m, a, b) => m.copy(list = (a until a + b).toVector)),
    "list_clear" -> changes((m, _, _) => m.copy(list = Vector.empty)),
    "map_get" -> ((m, a, _) => (m, orNothing(m.map.get(a.toString)))),
    "map_has" -> tells((m, a, _) => flag(m.map.contains(a.toString))),
    "map_put" -> changes((m, a, b) => m.copy(map = m.map + (a.toString -> b))),
    "map_fill" -> changes { (m, a, b) =>
      m.copy(map = m.map ++ (a until a + b).map(key => key.toString -> (key * 10 + b)))
    },
    "map_remove" -> changes((m, a, _) => m.copy(map = m.map - a.toString)),
    "map_clear" -> changes((m, _, _) => m.copy(map = Map.empty)),
    "map_empty" -> tells((m, _, _) => flag(m.map.isEmpty)),
    "map_all" -> tells((m, _, _) => text(m.map.toSeq.sorted)),
    "map_some" -> ((m, _, b) => (m, Some(isSomeOf(m.map, b.toInt)(_)))),
    "map_change" -> { (m, a, b) =>
      val changed = m.map.collect { case (key, value) if value % 2 == 0 => key -> (value + a) }
      val added = if (m.map.isEmpty) Map.empty[String, Long] else Map(s"new $b" -> a)
      (m.copy(map = changed ++ added), is(text(m.map.toSeq.sorted)))
    },
    "sorted_get" -> ((m, a, _) => (m, orNothing(m.sorted.get(a)))),
    "sorted_put" -> changes((m, a, b) => m.copy(sorted = m.sorted + (a -> b))),
    "sorted_fill" -> changes { (m, a, b) =>
      m.copy(sorted = m.sorted ++ (a until a + b).map(key => key -> (key * 10 + b)))
    },
    "sorted_remove" -> changes((m, a, _) => m.copy(sorted = m.sorted - a)),
    "sorted_clear" -> changes((m, _, _) => m.copy(sorted = TreeMap.empty)),
    "sorted_first" -> tells((m, _, _) => text(m.sorted.take(1))),
    "sorted_last" -> tells((m, _, _) => text(m.sorted.takeRight(1))),
    "sorted_floor" -> tells((m, a, _) => text(m.sorted.rangeTo(a).takeRight(1))),
    "sorted_range" -> tells((m, a, b) => text(m.sorted.range(a, a + b))),
    "sorted_from" -> tells((m, a, b) => text(m.sorted.rangeFrom(a).take(b.toInt))),
    "sorted_back" -> tells { (m, a, b) =>
      text(m.sorted.rangeUntil(a).toSeq.reverse.take(b.toInt))
    },
    "sorted_poll" -> ((m, _, b) =>
      (m.copy(sorted = m.sorted.drop(b.toInt)), is(text(m.sorted.take(b.toInt))))
    ),
    "sorted_change" -> { (m, a, b) =>
      val changed = m.sorted.foldLeft(m.sorted) { case (now, (key, value)) =>
        if (value % 2 != 0) now - key else now + (key + b -> (value + a))
      }
      (m.copy(sorted = changed), is(text(m.sorted)))
    },
    "timer_set" -> changes((m, a, b) => m.copy(timers = m.timers + Timer(b.toInt, a))),
    "timer_delete" -> changes((m, a, b) => m.copy(timers = m.timers - Timer(b.toInt, a)))
  )

  private def isSomeOf(map: Map[String, Long], most: Int)(told: String): Boolean = {
    val found = told.stripPrefix("some ").split(' ').toSeq.filter(_.nonEmpty)
    val all = map.map { case (key, value) => s"$key=$value" }.toSet
    // A key may have a space in it.
    val joined = found.foldLeft(Vector.empty[String]) {
      case (done :+ last, part) if !last.contains('=') => done :+ s"$last $part"
      case (done, part) => done :+ part
    }
    joined.size == math.min(most, map.size) && joined.distinct.size == joined.size &&
    joined.forall(all)
  }
}
