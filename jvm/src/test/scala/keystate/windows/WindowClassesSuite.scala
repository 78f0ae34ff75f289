package keystate.windows

import scala.collection.mutable.ArrayBuffer

import org.json4s._
import org.scalatest.funsuite.AnyFunSuite

import keystate.errors.KeystateException

/** The classes of windows by themselves: the table that Python's have too. */
class WindowClassesSuite extends AnyFunSuite {
  import WindowTable._

  private val table = read("window_class_cases")

  private def window(json: JValue): TimeWindow =
    TimeWindow(long(json(0)), long(json(1)))

  private def orGlobal(json: JValue): Window = json match {
    case JNull => GlobalWindow.get
    case other => window(other)
  }

  test("where windows begin") {
    for (each <- (table \ "starts").children; time <- (each \ "starts").children) {
      val start = TimeWindow.getWindowStartWithOffset(
        long(time(0)),
        long(each \ "offset"),
        long(each \ "size")
      )
      assert(start == long(time(1)), s"$each $time")
    }
  }

  test("windows that meet") {
    for (each <- (table \ "intersects").children) {
      val (a, b) = (window(each(0)), window(each(1)))
      assert(a.intersects(b) == each(2).values && b.intersects(a) == each(2).values)
      assert(a.cover(b) == window(each(3)) && b.cover(a) == window(each(3)))
    }
  }

  test("which windows an element is in") {
    for (each <- (table \ "assigners").children) {
      val own = assigner(each \ "assigner")
      val default = (each \ "default")(0).values
      assert(own.isEventTime == (default == "EventTimeTrigger"))
      assert(own.getDefaultTrigger.getClass.getSimpleName == default)
      for (at <- (each \ "windows").children) {
        // Only the clock that the assigner goes by is right.
        val (time, wrong) = (long(at(0)), -1000000000L)
        val context: WindowAssignerContext = new WindowAssignerContext {
          override def getCurrentProcessingTime: Long = if (own.isEventTime) wrong else time
        }
        val found = own.assignWindows(null, if (own.isEventTime) time else wrong, context)
        assert(found.toSet == at(1).children.map(orGlobal).toSet, s"$each at $time")
        assert(found.size == at(1).children.size)
      }
    }
  }

  test("which windows are merged") {
    val sessions = assigner(JArray(List(JString("EventTimeSessionWindows"), JInt(5000))))
      .asInstanceOf[MergingWindowAssigner[Purchase, Window]]
    for (each <- (table \ "merges").children) {
      val merged = ArrayBuffer.empty[(Set[Window], Window)]
      sessions.mergeWindows(
        (each \ "windows").children.map(window),
        (windows, into) => merged += windows.toSet -> into
      )
      val expected = (each \ "merged").children.map { group =>
        (group(0).children.map(window).toSet[Window], window(group(1)))
      }
      assert(merged.toSeq == expected)
    }
  }

  test("what is refused") {
    for (each <- (table \ "refused").children) {
      val error = intercept[KeystateException](assigner(each))
      assert(error.code == "KEYSTATE_DECLARATION" && error.getMessage.contains("more than 0"))
    }
  }
}
