package keystate.testing

import java.sql.Timestamp

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Dataset

import keystate._
import keystate.errors.KeystateException

/** Fails for the second input; sets timers by processing time. */
class Alarms extends KeyedCoProcessFunction[String, Numbered, Named, (String, String)] {
  override def processElement1(in: Numbered, ctx: Context, out: Collector[(String, String)]): Unit =
    ctx.timerService().registerProcessingTimeTimer(in.number)

  override def processElement2(in: Named, ctx: Context, out: Collector[(String, String)]): Unit = {
    if (in.text == "fails") throw new IllegalArgumentException("mine")
    ctx.timerService().registerProcessingTimeTimer(ctx.timerService().currentProcessingTime() + 5)
  }

  override def onTimer(time: Long, ctx: OnTimerContext, out: Collector[(String, String)]): Unit =
    out.collect((ctx.getCurrentKey, s"$time ${ctx.timeDomain()}"))
}

/** Emits what comes. */
class Numbers extends MapFunction[Numbered, (String, String)] {
  override def map(in: Numbered): (String, String) = (in.key, in.number.toString)
}

class NumbersAndNames extends CoMapFunction[Numbered, Named, (String, String)] {
  override def map1(in: Numbered): (String, String) = (in.key, in.number.toString)
  override def map2(in: Named): (String, String) = (in.id, in.text)
}

class NumbersOnNames
    extends KeyedProcessFunction[String, Numbered, (String, String)]
    with InitialStateFunction[String, Named] {
  override def processInitialState(in: Named, ctx: Context): Unit =
    throw new IllegalStateException("it has run before")
  override def processElement(in: Numbered, ctx: Context, out: Collector[(String, String)]): Unit =
    out.collect((in.key, in.number.toString))
}

/** What tests/contract/test_co_process.py and test_harness_broadcast.py say of Python's harness. */
class TwoInputHarnessSuite extends AnyFunSuite with SessionFixture {
  private type Result = (String, String)
  private type Build = (Dataset[Numbered], Dataset[Named]) => Dataset[Result]

  override def beforeAll(): Unit = {
    super.beforeAll()
    val _ = spark // the harness takes the session that there is
  }

  private def harness(build: Build, parallelism: Int = 1, backend: String = "hashmap") =
    new KeyedTwoInputStreamOperatorTestHarness[Numbered, Named, Result](
      build,
      parallelism,
      backend = backend
    )

  for ((parallelism, backend) <- Seq((1, "hashmap"), (4, "rocksdb")))
    for (each <- CoProcessCases.all) test(s"${each.name}, from $parallelism subtasks, $backend") {
      var subtasks = parallelism
      var running = harness(each.build, subtasks, backend)
      each.batches.foreach { batch =>
        val emitted = running.processBatch(batch.first, batch.second, Some(batch.watermark))
        assert(emitted.groupMap(_._1)(_._2) == batch.expected)
        assert(running.numLateElements == batch.late)
        // As a restart does, with more subtasks or fewer.
        subtasks = subtasks % 5 + 1
        val snapshot = running.snapshot()
        running.close()
        running = harness(each.build, subtasks, backend)
        running.initializeState(snapshot)
      }
      running.close()
    }

  private def connected(first: Dataset[Numbered], second: Dataset[Named]) = first
    .withWatermark("time", "0 seconds")
    .keyBy(_.key)
    .connect(second.withWatermark("time", "0 seconds").keyBy(_.id))

  private def at(ms: Long) = new Timestamp(ms)

  test("one element at a time, with errors, late elements and timers by processing time") {
    val alarms = harness(connected(_, _).process(new Alarms), parallelism = 2)
    try {
      alarms.open()
      alarms.processElement1(Numbered("a", 7, null), timestamp = 5)
      alarms.setProcessingTime(2)
      alarms.processElement2(Named(null, "x", "b"), timestamp = 5)
      assert(alarms.numProcessingTimeTimers == 2 && alarms.numEventTimeTimers == 0)
      val error = intercept[KeystateException](alarms.processElement2(Named(at(1), "fails", "a")))
      assert(error.code == "KEYSTATE_FUNCTION_FAILED" && error.getMessage.contains("key a"))
      assert(
        alarms.setProcessingTime(7).sorted ==
          Seq(("a", "7 PROCESSING_TIME"), ("b", "7 PROCESSING_TIME"))
      )
      alarms.processWatermark(100)
      alarms.processElement1(Numbered("a", 9, at(100)))
      alarms.processElement2(Named(at(101), "x", "a"))
      assert(alarms.numLateElements == 1 && alarms.numProcessingTimeTimers == 1)
    } finally alarms.close()
  }

  test("a batch Dataset is read once: as initial state, or as a second input") {
    import spark.implicits._
    val names = Seq(Named(at(1), "Ann", "a"), Named(at(1), "Bob", "b")).toDS()
    val builds = Seq[Dataset[Numbered] => Dataset[Result]](
      _.keyBy(_.key).connect(names.keyBy(_.id)).process(new CoProcessCases.SharedState),
      in => names.keyBy(_.id).connect(in.keyBy(_.key)).map(new Swapped)
    )
    val expected = Seq(
      (Seq(("a", "2 Ann"), ("a", "Ann 0 []"), ("b", "Bob 0 []")), Seq(("b", "3 Bob"))),
      (Seq(("a", "2"), ("a", "Ann"), ("b", "Bob")), Seq(("b", "3")))
    )
    for ((build, (first, second)) <- builds.zip(expected)) {
      val running = new KeyedOneInputStreamOperatorTestHarness[Numbered, Result](build, 2)
      assert(running.processElement(Numbered("a", 2, null)).sorted == first)
      assert(running.processElement(Numbered("b", 3, null)) == second)
      running.close()
    }
  }

  test("a batch Dataset that comes with a restart is read once, as initial state it is not") {
    import spark.implicits._
    val names = Seq(Named(at(1), "Ann", "a"), Named(at(1), "Bob", "b")).toDS()
    type Built = Dataset[Numbered] => Dataset[Result]
    val alone: Built = _.keyBy(_.key).map(new Numbers)
    val connected: Built = _.keyBy(_.key).connect(names.keyBy(_.id)).map(new NumbersAndNames)
    val initial: Built = _.keyBy(_.key).process(new NumbersOnNames, names.keyBy(_.id))
    val all = Seq(("a", "Ann"), ("b", "Bob"), ("c", "1"))
    for ((build, first) <- Seq(connected -> all, initial -> all.drop(2))) {
      var snapshot = Option.empty[OperatorSnapshot]
      def emitted(build: Built): Seq[Result] = {
        val running = new KeyedOneInputStreamOperatorTestHarness[Numbered, Result](build, 2)
        snapshot.foreach(running.initializeState)
        try running.processElement(Numbered("c", 1, null)).sorted
        finally {
          snapshot = Some(running.snapshot())
          running.close()
        }
      }
      val results = Seq(alone, build, build, alone, build).map(emitted)
      assert(results == Seq(all.drop(2), first) ++ Seq.fill(3)(all.drop(2)))
    }
  }

  test("what a query refuses is refused, and so is another operator") {
    def refused(build: Build) = {
      val error = intercept[KeystateException](harness(build))
      assert(error.code == "KEYSTATE_DECLARATION")
      error.getMessage
    }
    def pairs = new CoProcessCases.Pairs
    assert(
      refused((a, b) => a.keyBy(_.key).connect(b.keyBy(_.time)).flatMap(pairs)).contains("STRING")
    )
    assert(refused((a, b) => connected(a, b).flatMap(pairs).filter(_._1 != "")).contains("Filter"))
    assert(
      refused((a, _) => a.keyBy(_.key).map((in: Numbered) => (in.key, "")))
        .contains("one operator of two keyed inputs")
    )
    val rates = MapStateDescriptor[String, String]("rates")
    refused((a, b) => a.keyBy(_.key).connect(b.broadcast(rates)).process(new Silent))
    val expiring = StateTtlConfig.newBuilder(Time.seconds(1)).useEventTime().build()
    val error = intercept[KeystateException] {
      new KeyedOneInputStreamOperatorTestHarness[Numbered, Result](
        _.keyBy(_.key).process(new ExpiringBy(expiring))
      )
    }
    assert(error.getMessage.contains("watermark"))
  }

  private def priced(subtasks: Int) =
    new KeyedBroadcastOperatorTestHarness[Sale, Rule, Priced](
      (sales, rules) =>
        sales
          .keyBy(_.key)
          .connect(rules.broadcast(Descriptors.rules, Descriptors.log))
          .process(new Pricing),
      subtasks
    )

  test("broadcast elements go to every subtask, and their states to those of a restart") {
    val expected = new ExpectedPrices
    val batches = Seq(
      (Seq.empty[Rule], Seq(Sale(1, "a", 3))),
      (Seq(Rule("a", Some(2)), Rule("b", Some(3))), (0L to 9L).map(Sale(_, "a", 1))),
      (Seq(Rule("a", None), Rule("b", Some(5))), (0L to 9L).map(Sale(_, "b", 2))),
      (Nil, (0L to 9L).map(Sale(_, "b", 1)))
    )
    var running = priced(2)
    for (((rules, sales), i) <- batches.zipWithIndex) {
      def sorted(emitted: Seq[Priced]) = emitted.map(_.copy(subtask = 0)).sortBy(_.key)
      assert(sorted(running.processBatch(sales, rules)) == sorted(expected.feed(rules, sales)))
      val snapshot = running.snapshot()
      running.close()
      running = priced(Seq(4, 1, 3, 2)(i))
      running.initializeState(snapshot)
    }
    for (subtask <- 0 to 1)
      assert(running.getBroadcastState(Descriptors.rules, subtask) == Map("b" -> Factor(5, null)))
    val unknown = intercept[KeystateException] {
      running.getBroadcastState(MapStateDescriptor[String, String]("other"))
    }
    assert(unknown.code == "KEYSTATE_DECLARATION")
    running.close()
  }

  test("broadcast elements reach the keys of every subtask, and a failure undoes them in all") {
    val running = new KeyedBroadcastOperatorTestHarness[Sale, Rule, String](
      (sales, rules) =>
        sales.keyBy(_.key).connect(rules.broadcast(Descriptors.rules)).process(new Resets),
      parallelism = 3
    )
    running.setProcessingTime(1)
    val all = (0L to 9L).map(Sale(_, "sale", 1))
    running.processBatch(all)
    assert(running.processBroadcastElement(Rule("multiply", Some(10))) == Nil)
    intercept[KeystateException] {
      running.processBatch(
        all,
        Seq(Rule("multiply", Some(10)), Rule("new", None), Rule("nested", None))
      )
    }
    assert((0 to 2).forall(running.getBroadcastState(Descriptors.rules, _).isEmpty))
    assert(running.processBatch(all).sorted == (0 to 9).map(key => s"$key 11 2"))
    running.processBroadcastElement(Rule("rule", None))
    assert(running.processElement(Sale(1, "timer", 0)) == Seq("timer 1 rule"))
    assert(running.setProcessingTime(2) == Nil)
    running.close()
  }

  for ((returned, backend) <- Seq((false, "hashmap"), (true, "rocksdb")))
    test(s"broadcast elements do not reach what has expired, $backend") {
      val running = new KeyedBroadcastOperatorTestHarness[Sale, Rule, String](
        (sales, rules) =>
          sales
            .keyBy(_.key)
            .connect(rules.broadcast(Descriptors.rules))
            .process(new Living(returned)),
        backend = backend
      )
      def visited(time: Long, sales: Sale*) =
        running.processBatch(sales, Seq(Rule("", None)), None, Some(time)).sorted
      assert(visited(1000, Sale(1, "", 1), Sale(2, "", 1)) == Nil)
      assert(visited(1600, Sale(2, "", 7)) == Seq("1 1", "2 1", "seen 1", "seen 2"))
      // The values were written again; of key 2 the newest element lives.
      assert(visited(2100) == Seq("1 2", "2 7", "seen 2"))
      assert(visited(3099) == Seq("1 3", "2 8"))
      assert(visited(4099) == Nil)
      assert(running.processBatch(Seq(Sale(3, "", 5))) == Nil)
      assert(visited(5098) == Seq("3 5", "seen 3"))
      running.close()
    }

  test("a broadcast stream without keys") {
    val running = new KeyedBroadcastOperatorTestHarness[Sale, Rule, (Long, String, Int)](
      (sales, rules) =>
        sales.stream.connect(rules.broadcast(Descriptors.rules)).process(new Tags()),
      parallelism = 2
    )
    assert(running.processBroadcastElement(Rule("a", Some(7))) == Seq((-1L, "a", 0), (-1L, "a", 1)))
    val tagged = running.processBatch((1L to 20L).map(Sale(0, "a", _)))
    assert(tagged.map(_._2).toSet == Set("7x") && tagged.map(_._3).toSet == Set(0, 1))
    running.close()
  }
}

/** Of the elements of both inputs their texts. */
class Swapped extends CoMapFunction[Named, Numbered, (String, String)] {
  override def map1(in: Named): (String, String) = (in.id, in.text)
  override def map2(in: Numbered): (String, String) = (in.key, s"${in.number}")
}

class Silent extends KeyedBroadcastProcessFunction[String, Numbered, Named, (String, String)] {
  override def processElement(
      in: Numbered,
      ctx: ReadOnlyContext,
      out: Collector[(String, String)]
  ): Unit = ()
  override def processBroadcastElement(
      in: Named,
      ctx: Context,
      out: Collector[(String, String)]
  ): Unit = ()
}

class ExpiringBy(ttl: StateTtlConfig)
    extends KeyedProcessFunction[String, Numbered, (String, String)] {
  override def open(ctx: RuntimeContext): Unit = {
    val last = ValueStateDescriptor[String]("last")
    last.enableTimeToLive(ttl)
    ctx.getState(last)
    ()
  }
  override def processElement(in: Numbered, ctx: Context, out: Collector[(String, String)]): Unit =
    ()
}
