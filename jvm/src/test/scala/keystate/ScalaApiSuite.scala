package keystate

import java.io.File
import java.sql.Timestamp

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Dataset
import org.apache.spark.sql.functions.rand

import keystate.errors.KeystateException

final case class Click(user: String, page: String, at: Timestamp)
final case class Visit(page: String, count: Int)

class ScalaApiSuite extends AnyFunSuite with SessionFixture {
  import spark.implicits._

  private val pairs = Seq((1L, 3L), (1L, 5L), (1L, 7L), (1L, 4L), (1L, 2L))

  test("CountWindowAverage, in a stream, with restarts and rescaling, and in a batch") {
    def build(in: Dataset[(Long, Long)]) = in.keyBy(_._1).flatMap(new CountWindowAverage)
    val stream = new Stream[(Long, Long)]("average")
    assert(stream.run(build)(pairs) == Seq((1L, 4L), (1L, 5L)))
    assert(stream.run(build)(Seq((1L, 8L), (2L, 6L))) == Seq((1L, 5L)))
    withSetting("spark.sql.shuffle.partitions", "5") {
      assert(stream.run(build)(Seq((2L, 8L)), Seq((1L, 1L), (1L, 3L))) == Seq((2L, 7L), (1L, 2L)))
    }
    assert(build(pairs.toDS().coalesce(1)).collect().toSeq == Seq((1L, 4L), (1L, 5L)))
  }

  test("a stream that is only explained leaves no files") {
    val unknown = new File("<unknown>") // what Spark says is the checkpoint
    new Stream[(Long, Long)]("explained").toDS.keyBy(_._1).flatMap(new CountWindowAverage).explain()
    assert(!unknown.exists)
  }

  test("CountWindowFirstEntry") {
    val input = Seq(3L, 5L, 3L, 7L, 4L, 2L, 2L, 1L).map((1L, _))
    val expected =
      Seq((3L, 1L), (3L, 1L), (3L, 2L), (3L, 2L), (3L, 2L), (2L, 1L), (2L, 2L), (1L, 1L))
        .map { case (key, count) => (1L, key, count) }
    val stream = new Stream[(Long, Long)]("first")
    val emitted =
      stream.run(_.keyBy(_._1).flatMap(new CountWindowFirstEntry))(input.take(3), input.drop(3))
    assert(emitted == expected)
  }

  test("mapWithState, flatMapWithState and filterWithState") {
    val words = Seq(("a", 1), ("b", 2), ("a", 3), ("a", 4), ("b", 5))
    val counts = new Stream[(String, Int)]("mapWithState").run(
      _.keyBy(_._1).mapWithState((in: (String, Int), count: Option[Int]) =>
        count match {
          case Some(c) => ((in._1, c), Some(c + in._2))
          case None => ((in._1, 0), Some(in._2))
        }
      )
    )(words.take(3), words.drop(3))
    assert(counts.sorted == Seq(("a", 0), ("a", 1), ("a", 4), ("b", 0), ("b", 2)))

    // None as the state to keep forgets it.
    val everySecond = words.toDS().coalesce(1).keyBy(_._1).flatMapWithState {
      (in: (String, Int), before: Option[Int]) =>
        before match {
          case Some(first) => (Seq(in._1 -> first, in._1 -> in._2), None)
          case None => (Nil, Some(in._2))
        }
    }
    assert(everySecond.collect().sorted.toSeq == Seq(("a", 1), ("a", 3), ("b", 2), ("b", 5)))

    val firsts = words.toDS().keyBy(_._1).filterWithState {
      (_: (String, Int), seen: Option[Boolean]) => (seen.isEmpty, Some(true))
    }
    assert(firsts.collect().map(_._1).sorted.toSeq == Seq("a", "b"))
  }

  test("map, filter and reduce, with plain functions") {
    val data = Seq(("a", 1), ("a", 2), ("b", 5)).toDS().coalesce(1)
    assert(
      data.keyed("_1").map((in: (String, Int)) => in._2 * 2).collect().sorted.toSeq ==
        Seq(2, 4, 10)
    )
    assert(data.keyed("_1").filter((in: (String, Int)) => in._2 > 1).count() == 2)
    def sum(in: Dataset[(String, Int)]) = in.keyed("_1").reduce((a, b) => (a._1, a._2 + b._2))
    assert(sum(data).collect().sorted.toSeq == Seq(("a", 3), ("b", 5)))
    val rolling = new Stream[(String, Int)]("reduce").run(sum)(Seq(("a", 1), ("a", 2), ("b", 5)))
    assert(rolling.sorted == Seq(("a", 1), ("a", 3), ("b", 5)))
  }

  test("orderBy sorts the rows of a key, in a stream and in a batch") {
    val words = Seq(("a", 3), ("b", 2), ("a", 1), ("a", 4), ("b", 5), ("b", 1))
    def build(
        in: Dataset[(String, Int)]
    )(ordered: KeyedDataset[(String, Int)] => KeyedDataset[(String, Int)]) =
      ordered(in.repartition(3).keyed("_1")).flatMapWithState[String, String] {
        (row: (String, Int), before: Option[String]) =>
          val seen = before.getOrElse(row._1) + row._2
          (Seq(seen), Some(seen))
      }
    val stream = new Stream[(String, Int)]("orderBy")
    val emitted = stream.run(build(_)(_.orderBy("_2")))(words, Seq(("a", 0), ("a", -1)))
    assert(emitted.sortBy(_.length).takeRight(2).toSet == Set("a134-10", "a134-1"))
    assert(emitted.contains("b125"))
    val descending = build(words.toDS())(_.orderBy($"_2".desc)).collect()
    assert(Set("a431", "b521").subsetOf(descending.toSet))
    val error = intercept[KeystateException](
      words.toDS().keyed("_1").orderBy(rand()).map((in: (String, Int)) => in._2)
    )
    assert(error.code == "KEYSTATE_DECLARATION")
  }

  test("every kind of state, over restarts") {
    def build(in: Dataset[(String, Int)]) = in.keyBy(_._1).process(new EveryState)
    val stream = new Stream[(String, Int)]("every")
    val first = stream.run(build)(Seq(("k", 1)), Seq(("k", 2)))
    assert(
      first == Seq(
        "value 1, list 1, reduced 1, aggregated 1.0, folded 0+1, visits Visit(p1,1), sorted 1",
        "value 2, list 1|2, reduced 3, aggregated 1.5, folded 0+1+2, visits Visit(p0,1)|Visit(p1,1), " +
          "sorted 2|1"
      )
    )
    assert(stream.run(build)(Seq(("k", 0))) == Seq("cleared"))
    assert(
      stream.run(build)(Seq(("k", 7))) == Seq(
        "value 1, list 7, reduced 7, aggregated 7.0, folded 0+7, visits Visit(p1,1), sorted 7"
      )
    )
  }

  test("a default that is changed in place is changed for no other key") {
    val out = Seq("a" -> 1, "b" -> 1, "c" -> 1).toDS().keyBy(_._1).process(new ChangesDefaults)
    assert(out.collect().toSet == Set("a 1 1", "b 1 1", "c 1 1"))
  }

  test("a sorted map's ranges, and changes while it is iterated") {
    val out = Seq(1).toDS().keyBy(identity).process(new Ranges).collect().toSeq
    assert(out == Ranges.expected)
  }

  test("large lists and maps") {
    val out = Seq.range(0, 3000).toDS().coalesce(1).keyBy(_ % 2).process(new Large).collect()
    assert(out.toSeq == Seq((0, 1500, 2998L), (1, 1500, 2999L)))
  }

  test("timers by event time and processing time") {
    def build(in: Dataset[Click]) =
      in.withWatermark("at", "0 seconds").keyed("user").process(new Silence)
    def click(user: String, second: Int) = Click(user, "p", new Timestamp(second * 1000L))
    val stream = new Stream[Click]("timers")
    val first = stream.run(build)(Seq(click("a", 1), click("b", 2), click("a", 3)))
    assert(first.toSet == Set("clock a", "clock b"))
    // The watermark passes 13 s after this batch; rows behind it are dropped.
    assert(
      stream.run(build)(Seq(click("c", 20))).filterNot(_.startsWith("clock")) ==
        Seq("b silent at 12 after 2", "a silent at 13 after 3")
    )
    assert(stream.run(build)(Seq(click("a", 5), click("a", 21))).toSet == Set("clock a"))
  }

  test("keys of several columns, and of an expression") {
    val data = Seq((1, "a", 10L), (1, "b", 20L), (1, "a", 30L)).toDF("x", "y", "v").coalesce(1)
    assert(
      data.keyed("x", "y").process(new KeyOfTuple).collect().toSeq ==
        Seq("(1,a)", "(1,b)", "(1,a)")
    )
    assert(
      data.keyed("x", "y").process(new KeyOfRow).collect().toSeq ==
        Seq("x=1 y=a", "x=1 y=b", "x=1 y=a")
    )
    assert(data.keyed($"v" % 20).process(new KeyOfLong).collect().toSeq == Seq(10L, 0L, 10L))
    val mistake = intercept[KeystateException](data.keyed("y").process(new KeyOfLong))
    assert(mistake.getMessage.contains("does not fit the key columns struct<y:string>"))
    val twice = intercept[KeystateException](data.keyed("x", "y", "x").process(new KeyOfRow))
    assert(twice.getMessage.contains("2 key columns are called 'x'"))
    val random = intercept[KeystateException](data.keyed(rand()).process(new KeyOfRow))
    assert(random.code == "KEYSTATE_KEY_NOT_A_COLUMN")
    assert(random.getMessage.contains("another value each time"))
  }

  test("a function is opened once for a subtask, and told where it is") {
    def build(in: Dataset[Long]) =
      in.keyBy(identity).name("where").maxParallelism(16).flatMap(new Where)
    val stream = new Stream[Long]("where")
    val out = stream.run(build)(Seq(1L, 2L, 3L), Seq(1L, 2L, 3L)).groupBy(_._1)
    assert(out.values.flatten.forall(_._4 == "where of 2, 16 groups"))
    // The second batch finds the function that the first one opened, with what it counted.
    out.values.foreach(rows => assert(rows.map(_._3).sorted == (1 to rows.size)))
  }

  test("a failure names key and row, and the query goes on from the checkpoint") {
    val stream = new Stream[(Long, Long)]("failure")
    def build(fail: Long)(in: Dataset[(Long, Long)]) = in.keyBy(_._1).flatMap(new FailsAt(fail))
    assert(stream.run(build(9))(Seq((1L, 1L))) == Seq(1L))
    val failure = intercept[Exception](stream.run(build(2))(Seq((1L, 2L))))
    val causes = Iterator.iterate[Throwable](failure)(_.getCause).takeWhile(_ != null).toSeq
    assert(causes.exists(e => e.getMessage.contains("while processing key 1, row (1,2)")))
    assert(causes.exists(e => e.isInstanceOf[IllegalStateException] && e.getMessage == "no 2"))
    assert(stream.run(build(9))(Seq((1L, 3L))) == Seq(3L, 6L))
  }

  test("mistakes are found before the query starts") {
    def mistake(fn: FlatMapFunction[(Long, Long), Long]) =
      intercept[KeystateException](Seq((1L, 2L)).toDS().keyBy(_._1).flatMap(fn)).getMessage
    def declaring(declare: RuntimeContext => Any) = mistake(new Declares(declare(_): Unit))
    assert(declaring { ctx =>
      ctx.getState(ValueStateDescriptor[Long]("twice"))
      ctx.getListState(ListStateDescriptor[Long]("twice"))
    } == "[KEYSTATE_DECLARATION] Two states are named 'twice'.")
    assert(
      declaring(_.getMapState(MapStateDescriptor[Map[Int, Int], Int]("m")))
        .contains("The keys of state 'm'")
    )
    assert(
      declaring(_.getState(ValueStateDescriptor[Thread]("t")))
        .contains("The type of state 't'")
    )
    val captured = new Object
    assert(
      mistake((_: (Long, Long), _: Collector[Long]) => println(captured))
        .contains("can't be sent to executors")
    )
    for (groups <- Seq(0, -1, 32769)) {
      val keyed = Seq(1L).toDS().keyBy(identity)
      val e = intercept[KeystateException](keyed.maxParallelism(groups))
      assert(e.code == "KEYSTATE_DECLARATION" && e.getMessage.contains(s"1 to 32768, not $groups"))
    }
  }

  test("a state of another type than the checkpoint's is refused") {
    val stream = new Stream[(Long, Long)]("types")
    stream.run(_.keyBy(_._1).flatMap(new CountWindowAverage))(Seq((1L, 3L)))
    val failure = intercept[Exception](stream.run(_.keyBy(_._1).flatMap(new Declares(ctx => {
      ctx.getState(ValueStateDescriptor[String]("average"))
      ()
    })))(Seq((1L, 4L))))
    assert(failure.getMessage.contains("KEYSTATE_STATE_CHANGED"))
  }
}
