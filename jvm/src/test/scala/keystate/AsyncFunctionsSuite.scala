package keystate

import java.time.Duration
import java.util.concurrent.TimeUnit.MILLISECONDS

import scala.concurrent.Future
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.SparkException
import org.apache.spark.sql.Dataset

import keystate.AsyncRetryStrategies._

/** Functions whose calls overlap: what tests/contract/test_async.py and tests/query/test_async.py
  * say of Python's.
  */
class AsyncFunctionsSuite extends AnyFunSuite with SessionFixture {
  import spark.implicits._

  private type In = (String, Long)
  private type Out = (String, String)

  private def rows(of: In*): Dataset[In] = of.toDS().coalesce(1)

  private def told(
      fn: AsyncKeyedProcessFunction[String, In, Out],
      capacity: Int = 100,
      timeout: Option[Duration] = None,
      retry: Option[AsyncRetryStrategy[Out]] = None,
      ordered: Boolean = true
  )(of: In*): Seq[Out] =
    withSetting("spark.sql.shuffle.partitions", "1") {
      rows(of: _*).keyBy(_._1).process(fn, capacity, timeout, retry, ordered).collect().toSeq
    }

  /** The error of Keystate that a query fails with. */
  private def failure(query: => Any): KeystateException = {
    val thrown = intercept[Throwable](query)
    val causes = Iterator.iterate(thrown)(_.getCause).takeWhile(_ != null)
    causes.collectFirst { case e: KeystateException => e }.getOrElse(throw thrown)
  }

  for (backend <- Seq("hashmap", "rocksdb")) test(s"states are as without overlap, on $backend") {
    val random = new Random(7)
    val batches =
      Seq.fill(2)(Seq.fill(200)((random.nextInt(25).toLong, random.nextInt(100).toLong))) :+ Nil
    val partitions = Seq("2", "3", "1")
    def run(name: String)(
        build: KeyedStream[(Long, Long), Long] => Dataset[(Long, String)]
    ): Seq[(Long, String)] = withSetting("spark.keystate.backend", backend) {
      val stream = new Stream[(Long, Long)](s"$name-$backend")
      batches.zip(partitions).flatMap { case (batch, number) =>
        withSetting("spark.sql.shuffle.partitions", number) {
          // One partition, so that the rows of a key keep their order.
          stream.run(in => build(in.coalesce(1).keyBy(_._1).timeMode("processing_time")))(batch)
        }
      }
    }
    val plain = run("plain")(_.process(new PlainSteps))
    val overlapping = run("overlapping")(_.process(new WaitingSteps(3), capacity = 9))
    assert(plain.size > 400 && plain.exists(_._2.startsWith("timer")))
    assert(overlapping.sorted == plain.sorted)
  }

  test("elements of different keys overlap up to the capacity") {
    val in = (0 until 100).map(i => (s"key-${i % 20}", i.toLong))
    val numbers = told(new Counting(InFlight.ask), capacity = 7)(in: _*)
      .map(_._2.split(" ").last.split("/").map(_.toInt))
    assert(numbers.size == 100)
    assert(numbers.map(_(0)).max == 7)
    assert(numbers.map(_(1)).toSet == Set(1))
  }

  test("the order of results") {
    val fn = new Counting((_, x) => Later.answer(x)(()))
    val in = Seq(("a", 120L), ("b", 5L), ("a", 1L), ("c", 50L))
    val expected = Seq(("a", "120 1"), ("b", "5 1"), ("a", "1 2"), ("c", "50 1"))
    assert(told(fn)(in: _*) == expected)
    assert(told(fn, ordered = false)(in: _*) == Seq(1, 3, 0, 2).map(expected))
  }

  test("more elements than are processed together, of one key and of many") {
    val fn = new Counting((_, _) => Future.unit)
    val in = (0 until 9000).map(i => (if (i % 3 == 0) "one" else s"key-$i", i.toLong))
    val emitted = told(fn)(in: _*)
    assert(emitted.map(_._1) == in.map(_._1))
    assert(emitted.filter(_._1 == "one").last._2 == "8997 3000")
  }

  test("an error names key and element, and a mended query goes on") {
    val stream = new Stream[In]("mended")
    def build(fn: AsyncKeyedProcessFunction[String, In, Out])(in: Dataset[In]): Dataset[Out] =
      in.keyBy(_._1).process(fn)
    val good = new Counting((_, _) => Later.answer(1)(()))
    assert(stream.run(build(good))(Seq(("a", 1L))) == Seq(("a", "1 1")))
    val bad = new Counting((key, _) =>
      Later.answer(if (key == "slow") 600000 else 5) {
        if (key == "bad") throw new IllegalArgumentException("no such thing")
      }
    )
    val began = System.nanoTime
    val error = failure(stream.run(build(bad))(Seq(("slow", 0L), ("a", 1L), ("bad", 2L))))
    assert(System.nanoTime - began < 300e9)
    assert(error.code == "KEYSTATE_FUNCTION_FAILED")
    assert(error.getMessage.contains("no such thing, while processing key bad, row (bad,2)"))
    assert(
      stream.run(build(good))(Nil).sorted == Seq(("a", "1 2"), ("bad", "2 1"), ("slow", "0 1"))
    )
  }

  test("where a call's key is not") {
    val in = Seq(("a", 1L), ("a", 2L))
    for (where <- Seq("thread", "context", "later")) withClue(where) {
      assert(failure(told(new Elsewhere(where))(in: _*)).code == "KEYSTATE_NO_CURRENT_KEY")
    }
  }

  test("timers of a key fire one after the other") {
    def fired(fails: Boolean) = told(new TimersThatWait(fails))(("a", 1L), ("b", 2L)).sorted
    val expected =
      for (key <- Seq("a", "b"); time <- Seq(10, 30))
        yield (key, s"$time $time EVENT_TIME")
    assert(fired(fails = false) == expected)
    val error = failure(fired(fails = true))
    assert(error.getMessage.matches("(?s).*not now, while processing key [ab], timer 10"))
  }

  test("an element that takes too long") {
    val slow = (_: String, x: Long) => Later.answer(x)(())
    val limit = Some(Duration.ofSeconds(1))
    val in = Seq(("a", 0L), ("a", 60000L), ("b", 0L), ("a", 0L))
    assert(
      told(new Counting(slow, late = Some(100)), timeout = limit)(in: _*) ==
        Seq(("a", "0 1"), ("a", "late"), ("b", "0 1"), ("a", "0 102"))
    )
    val error = failure(told(new Counting(slow), timeout = limit)(in: _*))
    assert(error.getMessage.contains("TimeoutException"))
    assert(error.getMessage.contains("key a, row (a,60000)"))
  }

  test("an answer that comes after the timeout changes nothing") {
    val in = Seq(("a", 150L), ("b", 400L), ("a", 0L))
    val fn = new Counting((_, x) => Later.answer(x)(()), late = Some(100))
    val options = Some(Duration.ofMillis(100))
    val emitted = told(fn, timeout = options)(in :+ (("c", 0L)): _*)
    assert(emitted == Seq(("a", "late"), ("b", "late"), ("a", "0 101"), ("c", "0 1")))
  }

  private def fixed(attempts: Int) = new FixedDelayRetryStrategyBuilder[Out](attempts, 1)

  test("retries") {
    val in = Seq(("a", 0L), ("a", 2L), ("b", 3L), ("c", 1L))
    val expected = Seq("a" -> 1, "a" -> 3, "b" -> 4, "c" -> 2).map { case (key, n) =>
      (key, s"attempt $n")
    }
    val exponential = new ExponentialBackoffDelayRetryStrategyBuilder[Out](3, 1, 2, 2.0)
    assert(told(new Flaky, retry = Some(fixed(3).build()))(in: _*) == expected)
    assert(told(new Flaky, retry = Some(exponential.build()))(in: _*) == expected)
    val error = failure(told(new Flaky, retry = Some(fixed(3).build()))(("a", 4L)))
    assert(error.getMessage.contains("flaky, while processing key a, row (a,4)"))
    val side = rows(in: _*).keyBy(_._1).process(new Flaky, retry = Some(fixed(3).build()))
    // What an attempt emitted is dropped if another one follows.
    assert(
      side.getSideOutput(Flaky.tried).collect().sorted.toSeq == Seq("a 1", "a 3", "b 4", "c 2")
    )
  }

  test("predicates of exceptions and results") {
    val io = fixed(9).ifException(_.isInstanceOf[java.io.IOException]).build()
    assert(told(new Flaky, retry = Some(io))(("a", 2L)) == Seq(("a", "attempt 3")))
    assert(failure(told(new Flaky, retry = Some(io))(("fatal", 1L))).getMessage.contains("fatal"))
    def few(attempts: Int) =
      Some(fixed(attempts).ifResult(_.head._2.split(" ").last.toInt < 3).build())
    assert(told(new Flaky, retry = few(5))(("a", 0L)) == Seq(("a", "attempt 3")))
    // As often as may be; then the last result counts.
    assert(told(new Flaky, retry = few(1))(("a", 0L)) == Seq(("a", "attempt 2")))
    assert(failure(told(new Flaky, retry = few(1))(("a", 1L))).getMessage.contains("flaky"))
  }

  test("the timeout is that of all attempts") {
    val fn = new Counting(
      (_, _) => Later.answer(1)(throw new java.io.IOException("flaky")),
      late = Some(1)
    )
    val retry = Some(new FixedDelayRetryStrategyBuilder[Out](1000, 20).build())
    assert(
      told(fn, timeout = Some(Duration.ofMillis(200)), retry = retry)(("a", 9L)) ==
        Seq(("a", "late"))
    )
  }

  test("the delays of strategies") {
    def delays(strategy: AsyncRetryStrategy[Out]) = (1 to 4).map(strategy.getBackoffTimeMillis)
    def exponential(multiplier: Double) =
      new ExponentialBackoffDelayRetryStrategyBuilder[Out](9, 10, 50, multiplier).build()
    assert(delays(new FixedDelayRetryStrategyBuilder[Out](9, 7).build()) == Seq(7, 7, 7, 7))
    assert(delays(exponential(2.0)) == Seq(10, 20, 40, 50))
    assert(delays(exponential(1.5)) == Seq(10, 15, 22, 33))
    assert(exponential(9.0).getBackoffTimeMillis(9999) == 50)
    assert(exponential(9.0).canRetry(9) && !exponential(9.0).canRetry(10))
  }

  test("Flink's AsyncFunction with state") {
    val in = Seq(("ann", 3L), ("bo", 1L), ("ann", 5L))
    val expected = Seq(("ann", 90L), ("bo", 20L), ("ann", 240L))
    withSetting("spark.sql.shuffle.partitions", "1") {
      Price.asked.set(0)
      val keyed = rows(in: _*).keyBy(_._1)
      assert(
        AsyncDataStream.orderedWait(keyed, new Price, 5000, MILLISECONDS).collect().toSeq ==
          expected
      )
      assert(Price.asked.get == 2, "the price of a key is asked for once")
      assert(
        AsyncDataStream
          .unorderedWait(rows(in: _*).keyed("_1"), new Price, 0, MILLISECONDS, 2)
          .collect()
          .sorted
          .toSeq == expected.sorted
      )
    }
  }

  test("without keys all elements overlap") {
    val in = (1 to 50).map(i => ("same", i.toLong))
    val emitted = AsyncDataStream
      .orderedWait[In, String](rows(in: _*).stream, 60000, MILLISECONDS, 10) { (in, resultFuture) =>
        InFlight
          .ask(in._1, in._2)
          .foreach(told => resultFuture.complete(Seq(s"${in._2} $told")))(
            scala.concurrent.ExecutionContext.parasitic
          )
      }
      .collect()
      .map(_.split("[ /]"))
    assert(emitted.map(_(0).toInt).toSeq == (1 to 50))
    assert(emitted.map(_(1).toInt).max == 10)
  }

  test("an AsyncFunction is tried again, and times out") {
    class Fails extends AsyncFunction[In, Out] {
      override def asyncInvoke(in: In, resultFuture: ResultFuture[Out]): Unit =
        if (in._1 == "silent") ()
        else resultFuture.completeExceptionally(new java.io.IOException("flaky"))
      override def timeout(in: In, resultFuture: ResultFuture[Out]): Unit =
        resultFuture.complete(Seq((in._1, "late")))
    }
    val strategy = new FixedDelayRetryStrategyBuilder[Out](100000, 5).build()
    def run(ordered: Boolean) = {
      val stream = rows(("silent", 1L), ("a", 2L)).stream
      if (ordered)
        AsyncDataStream.orderedWaitWithRetry(stream, new Fails, 150, MILLISECONDS, 5, strategy)
      else AsyncDataStream.unorderedWaitWithRetry(stream, new Fails, 150, MILLISECONDS, 5, strategy)
    }
    for (ordered <- Seq(true, false))
      assert(run(ordered).collect().sorted.toSeq == Seq(("a", "late"), ("silent", "late")))
  }

  test("a function that blocks for ever ends with its query") {
    val stream = new Stream[In]("stopped")
    val query = stream.toDS
      .keyBy(_._1)
      .process(new Counting((_, _) => Future.never))
      .writeStream
      .option("checkpointLocation", stream.checkpoint)
      .format("noop")
      .start()
    stream.feed(Seq(("a", 1L)))
    Thread.sleep(1500)
    assert(query.isActive && query.exception.isEmpty)
    val began = System.nanoTime
    query.stop()
    assert(System.nanoTime - began < 60e9)
  }

  test("declarations") {
    def refused(query: => Any)(message: String) = {
      val error = intercept[KeystateException](query)
      assert(error.code == "KEYSTATE_DECLARATION" && error.getMessage.contains(message))
    }
    val fn = new Counting((_, _) => Future.unit)
    refused(told(fn, capacity = 0)())("capacity is a number of elements of at least 1, not 0")
    refused(told(fn, timeout = Some(Duration.ZERO))())("longer than nothing")
    refused(fixed(0))("at least 1 attempt")
    refused(new FixedDelayRetryStrategyBuilder[Out](1, -1))("a delay of at least 0 ms")
    refused(new ExponentialBackoffDelayRetryStrategyBuilder[Out](1, 1, 1, 0.5))("multiplier")
    assertThrows[SparkException](told(new Counting((_, _) => null))(("a", 1L)))
  }
}
