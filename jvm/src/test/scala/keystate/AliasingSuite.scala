package keystate

import java.sql.Timestamp

import org.scalatest.funsuite.AnyFunSuite

import keystate.windows.{CountEvictor, SlidingEventTimeWindows, TumblingEventTimeWindows}

/** A value is taken as it is when it is handed over, and what is read is the reader's own. */
class AliasingSuite extends AnyFunSuite with SessionFixture {
  import spark.implicits._

  test("states of every kind, by every way in and out") {
    // One subtask: its operator state is what the key "a" made it.
    withSetting("spark.sql.shuffle.partitions", "1") {
      val stream = new Stream[(String, String)]("states")
      def run(batches: Seq[(String, String)]*) =
        stream.run(_.keyBy(_._1).process(new ChangesValues))(batches: _*)
      val within = run(Seq("a" -> "write", "b" -> "other"), Seq("a" -> "read"))
      val checked = within ++ run(Seq("a" -> "read"), Seq("a" -> "replace"))
      assert(checked.size == Changeable.all.size * (3 * 11 + 3 + 2))
      assert(checked.filter(check => check.found != check.wanted) == Nil)
    }
  }

  test("results, side outputs and keys") {
    val tag = OutputTag[Box]("side")
    val out = Seq(Box(0)).toDS().keyBy(_ => Array[Byte](1)).process(new EmitsOneObject(tag))
    assert(out.collect().toSeq == Seq(Box(1), Box(2)))
    assert(out.getSideOutput(tag).collect().toSeq == Seq(Box(1), Box(2)))
  }

  test("broadcast state") {
    val boxes = MapStateDescriptor[Long, Box]("boxes")
    val numbers = Seq(1L, 2L, 1L)
    val out = numbers.toDS().keyBy(identity).connect(Seq(1L, 2L).toDS().broadcast(boxes))
    assert(out.process(new ChangesBroadcast(boxes)).collect().toSeq.sorted == numbers.sorted)
  }

  private def readings =
    Seq(Measured("a", 1, new Timestamp(0)), Measured("a", 2, new Timestamp(15000)))
      .toDS()
      .coalesce(1)
      .keyBy(_.key)

  // The two elements are together in the second of three windows.
  private val sliding =
    SlidingEventTimeWindows.of(Time.seconds(20), Time.seconds(10))

  test("windows whose functions change what they are given") {
    val plain = readings.window(sliding, eventTime = "at")
    val kept = plain.allowedLateness(Time.seconds(1))
    val evicting = plain.evictor(CountEvictor.of[Measured](9))
    for (windowed <- Seq(plain, kept, evicting)) {
      assert(windowed.reduce(new SpoilsSecond).map(_.n).collect().toSeq == Seq(1L, 3L, 2L))
      assert(windowed.aggregate(new OneSum).collect().toSeq == Seq(1L, 3L, 2L))
    }
  }

  test("states of windows") {
    val tumbling = TumblingEventTimeWindows.of(Time.seconds(10))
    val out = readings.window(tumbling, eventTime = "at").process(new ChangesWindowStates)
    assert(out.collect().toSeq == Seq(Seq(5L, 1L, 7L, 8L), Seq(5L, 2L, 7L, 8L)))
  }

  test("reduce that changes its arguments") {
    val at = new Timestamp(0)
    val stream = new Stream[Measured]("reduce")
    val sums = stream.run(_.keyBy(_.key).reduce(new SpoilsSecond))(
      Seq(Measured("a", 1, at), Measured("a", 2, at)),
      Seq(Measured("a", 3, at), Measured("a", 4, at))
    )
    assert(sums.map(_.n) == Seq(1L, 3L, 6L, 10L))
  }
}
