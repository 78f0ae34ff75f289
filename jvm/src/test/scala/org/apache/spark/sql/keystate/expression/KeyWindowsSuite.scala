package org.apache.spark.sql.keystate.expression

import scala.collection.immutable.TreeMap

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

class KeyWindowsSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  private def window(start: Long) = new KeyWindow(start, start + 1, null, Nil, isOpen = false)

  private def startsOf(windows: KeyWindows) = (0 until windows.size).map(windows(_).start)

  test("windows are by their starts, as in a sorted map") {
    // A start to be put in, or two between which all are taken out.
    val steps = Gen.listOf(
      Gen.frequency(
        4 -> Gen.choose(-20L, 20L).map(start => (start, start)),
        1 -> Gen.zip(Gen.choose(-25L, 25L), Gen.choose(-25L, 25L))
      )
    )
    forAll(steps) { steps =>
      val windows = new KeyWindows(new UnsafeRow(0), Array.emptyByteArray, 0)
      var model = TreeMap.empty[Long, KeyWindow]
      steps.foreach { case (one, other) =>
        if (one == other) {
          if (!model.contains(one)) {
            model += one -> window(one)
            windows.insert(windows.indexOf(one), model(one))
          }
        } else {
          val (from, until) = (one.min(other), one.max(other))
          windows.remove(windows.indexOf(from), windows.indexOf(until))
          model = model.rangeUntil(from) ++ model.rangeFrom(until)
        }
        assert(startsOf(windows) == model.keys.toSeq)
        assert((0 until windows.size).forall(i => windows(i) eq model(windows(i).start)))
        (-26L to 26L).foreach(at => assert(windows.indexOf(at) == model.rangeUntil(at).size))
      }
    }
  }

  test("what is taken out is not kept from the garbage collector") {
    val windows = new KeyWindows(new UnsafeRow(0), Array.emptyByteArray, 0)
    (0L until 5L).foreach(at => windows.insert(windows.size, window(at)))
    windows.remove(1, 4)
    assert(startsOf(windows) == Seq(0, 4))
    assert((windows.size until 5).forall(windows(_) == null))
    windows.remove(0, 0)
    windows.remove(2, 2)
    assert(startsOf(windows) == Seq(0, 4))
    windows.remove(0, 2)
    assert(windows.size == 0)
  }
}
