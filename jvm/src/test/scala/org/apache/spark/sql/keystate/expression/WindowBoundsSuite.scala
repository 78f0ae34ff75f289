package org.apache.spark.sql.keystate.expression

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

class WindowBoundsSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  private val times = Gen.oneOf(
    Gen.choose(-10000L, 10000L),
    Gen.choose(-1L << 50, 1L << 50),
    Gen.oneOf(-1L, 0L, 1L, 999L, 1000L)
  )
  private val sizes = Gen.oneOf(Gen.choose(1L, 50L), Gen.choose(1L, 1L << 40))

  private val bounds = for {
    size <- sizes
    slide <- Gen.oneOf(Gen.const(size), Gen.choose(1L, size), sizes)
    offset <- Gen.choose(0L, slide - 1)
  } yield FixedBounds(size, slide, offset)

  test("a start is the last multiple of the size, plus the offset, that is not after the time") {
    forAll(times, bounds) { (time, bounds) =>
      val FixedBounds(size, _, offset) = bounds
      val start = FixedBounds.startOf(time, size, offset)
      assert(start <= time && time < start + size)
      assert(Math.floorMod(start - offset, size) == 0)
    }
  }

  test("windows of a time are those that begin at or before it and end after it") {
    val few = for {
      slide <- Gen.choose(1L, 50L)
      times <- Gen.choose(1L, 8L)
      rest <- Gen.choose(0L, slide - 1)
      offset <- Gen.choose(0L, slide - 1)
    } yield FixedBounds(slide * times - rest, slide, offset)
    forAll(Gen.choose(-1000L, 1000L), few) { (time, bounds) =>
      val FixedBounds(size, slide, offset) = bounds
      val starts = Iterator.iterate(bounds.lastStart(time))(_ - slide).takeWhile(_ > time - size)
      val all = (time - size + 1 to time).filter(at => Math.floorMod(at - offset, slide) == 0)
      assert(starts.toSeq.reverse == all)
    }
  }

  test("each window consists of whole panes, and rows of a pane are in the same windows") {
    forAll(times, bounds) { (time, bounds) =>
      val FixedBounds(size, slide, offset) = bounds
      assert(size % bounds.pane == 0 && slide % bounds.pane == 0)
      val pane = FixedBounds.startOf(time, bounds.pane, offset)
      val start = bounds.lastStart(time)
      assert(bounds.lastStart(pane) == start)
      assert((start > time - size) == (start > pane - size))
      // The last ms of a pane and the first one of the next.
      assert(bounds.lastStart(pane + bounds.pane - 1) == start)
    }
  }

  test("a pane has the times from its start on, of less than its size, in us") {
    val micros = Gen.oneOf(times, times.map(_ * 1000), times.map(_ * 1000 + 999))
    forAll(micros, bounds) { (micros, bounds) =>
      val start = PaneTime.start(micros, bounds.pane, bounds.offset)
      assert(start <= micros && micros < start + bounds.pane * 1000)
      assert(Math.floorMod(start - bounds.offset * 1000, bounds.pane * 1000) == 0)
      assert(PaneTime.start(start, bounds.pane, bounds.offset) == start)
    }
  }

  test("a time without its part of a ms, also before the epoch") {
    forAll(times) { micros =>
      val millis = PaneTime.millis(micros)
      assert(millis <= micros && micros < millis + 1000 && millis % 1000 == 0)
    }
    assert(
      Seq(-1001L, -1000L, -1L, 0L, 999L).map(PaneTime.millis) == Seq(-2000, -1000, -1000, 0, 0)
    )
  }
}
