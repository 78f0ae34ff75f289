package keystate

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.{Dataset, Encoder}

import keystate.errors.KeystateException

class OperatorStateApiSuite extends AnyFunSuite with SessionFixture {
  import spark.implicits._

  private val partitions = "spark.sql.shuffle.partitions"

  private val shapes = Seq("alone", "second of a union", "before a coalesce")

  /** An operator's result in a plan; in some, Spark's tasks have other numbers than its subtasks. */
  private def shaped[O: Encoder](shape: String)(in: Dataset[Long], out: Dataset[O]): Dataset[O] =
    shape match {
      case "alone" => out
      case "second of a union" => in.flatMap(_ => Seq.empty[O]).union(out)
      case "before a coalesce" => out.coalesce(1)
    }

  for (shape <- shapes)
    test(
      s"no element is lost or doubled over restarts and rescales, and union lists are everybody's, $shape"
    ) {
      def build(size: Int)(in: Dataset[Long]) =
        shaped(shape)(in, in.stream.process(new Buffer(size)))
      val stream = new Stream[Long](s"buffer ${shapes.indexOf(shape)}")
      var fed = 0L
      def more(n: Int): Seq[Long] = {
        fed += n
        (fed - n) until fed
      }
      for (n <- Seq("1", "3", "1", "4", "3"))
        withSetting(partitions, n) {
          assert(stream.run(build(1000000))(more(7), more(6)).isEmpty)
        }
      withSetting(partitions, "2") {
        val out = stream.run(build(1))(more(40))
        assert(out.map(_.value).sorted == (0L until fed))
        assert(out.map(_.subtask).toSet == Set(0, 1))
        assert(out.forall(emitted => emitted.restored && emitted.seen == 6))
      }
    }

  for (fails <- Seq(false, true))
    test(s"each element is in the lists once, ${if (fails) "though a task fails" else "always"}") {
      val stream = new Stream[Long](s"takes $fails")
      Takes.told.clear()
      Takes.fail.set(fails)
      var fed = 0L
      def run(subtasks: Int, batches: Int) = withSetting(partitions, s"$subtasks") {
        val before = fed
        val in = Seq.fill(batches) {
          fed += 10
          (fed - 10) until fed
        }
        val out = stream.run(_.stream.process(new Takes))(in: _*)
        // Each element finds what all subtasks had when its micro-batch began.
        val expected = (before until fed).map(value => Taken(value, (value / 10 * 10).toInt))
        assert(out.sortBy(_.value) == expected)
      }
      run(5, 10)
      assert(!Takes.fail.get)
      if (!fails) {
        val told = for (subtask <- 0 until 5; batch <- 0 until 9) yield s"$subtask $batch"
        assert(Takes.told.asScala.toSeq.sorted == told.sorted)
      }
      run(3, 3)
    }

  test("the union lists of many subtasks are read once in a process, and not by each of them") {
    val subtasks = 20
    def build(in: Dataset[Long]) = in.stream.process(new Buffer(1))
    withSetting(partitions, s"$subtasks") {
      val stream = new Stream[Long]("many")
      stream.run(build)(0L until 200L)
      val out = stream.run(build)(200L until 400L)
      assert(out.size == 200 && out.forall(_.seen == 200))
      val requests = stream.progress.flatMap(_.stateOperators).map { operator =>
        operator.customMetrics.get("keystateGets").longValue
      }
      // Two looks for each version file: one to load it, one for the lists.
      assert(requests.sum >= 2 * subtasks - 2 && requests.sum <= 4 * subtasks, requests)
    }
  }

  test("a union list that some releases do not ask for is kept once, and is everybody's again") {
    for (others <- Seq(Nil, Seq("v"))) {
      val stream = new Stream[Long](s"releases${others.size}")
      def began(n: Int, names: Seq[String]) = withSetting(partitions, s"$n") {
        stream.run(_.stream.process(new Unions(names: _*)))(0L until 50L).distinct.sortBy(_._1)
      }
      assert(began(2, Seq("u")) == Seq(0, 1).map(_ -> Seq(Nil)))
      for (n <- Seq(2, 2, 3, 2)) assert(began(n, others).map(_._1) == (0 until n))
      assert(began(2, Seq("u")) == Seq(0, 1).map(_ -> Seq(Seq(0, 1))))
    }
  }

  test("an attempt that fails leaves no trace, and batches that count are told of") {
    def build(in: Dataset[Long]) = in.keyBy(identity).process(new Tally)
    val stream = new Stream[Long]("tally")
    Tally.log.clear()
    Tally.fail.set(true)
    withSetting(partitions, "1") {
      val out = stream.run(build)(Seq(1L, 2L), Seq(4L, 13L), Seq(5L))
      assert(!Tally.fail.get, "it did not fail")
      assert(out.takeRight(1) == Seq((5L, 1L, 25L)) && out.map(_._3).max == 25)
      // The instance of batch 0 was in use until the failure; a new one took over batch 1.
      assert(
        Tally.log.asScala.toSeq ==
          Seq("snapshot 0", "complete 0", "snapshot 1", "complete 1", "snapshot 2")
      )
      assert(stream.run(build)(Seq(1L)) == Seq((1L, 2L, 26L)))
      assert(Tally.log.asScala.toSeq.takeRight(1) == Seq("snapshot 3"))
    }
  }

  test("a list goes on with wider elements and is refused with others") {
    val stream = new Stream[Long]("holds")
    withSetting(partitions, "1") {
      def holds[T](descriptor: ListStateDescriptor[T], next: T) =
        stream.run(_.stream.flatMap(new Holds(descriptor, next)))(Seq(1L))
      assert(holds(ListStateDescriptor[(Int, String)]("l"), (1, "a")) == Seq(""))
      assert(holds(ListStateDescriptor[String]("other"), "o") == Seq(""))
      assert(
        holds(ListStateDescriptor[(Long, String, Option[Int])]("l"), (2L, null, Some(3))) ==
          Seq("(1,a,None)")
      )
      assert(
        holds(ListStateDescriptor[(Long, String, Option[Int])]("l"), null) == Seq(
          "(2,null,Some(3))"
        )
      )
      assert(holds(ListStateDescriptor[String]("other"), "p") == Seq("o"))
      val failure = intercept[Exception](holds(ListStateDescriptor[String]("l"), ""))
      assert(failure.getMessage.contains("KEYSTATE_STATE_CHANGED"))
    }
  }

  for (shape <- shapes)
    test(
      s"raw streams over rescales: keyed ones go with their group, others are dealt out, $shape"
    ) {
      val stream = new Stream[Long](s"raw ${shapes.indexOf(shape)}")
      val keys = 0L until 40L
      for ((n, run) <- Seq("1", "3", "2").zipWithIndex)
        withSetting(partitions, n) {
          val out = stream.run { in =>
            shaped(shape)(in, in.keyBy(identity).process(new RawCounts))
          }(keys)
          assert(out.map(row => row.key -> row.n).sorted == keys.map(_ -> (run + 1L)))
          assert(out.forall(row => row.subtask == row.group * n.toInt / 128))
          assert(out.forall(_.late == "KEYSTATE_NOT_IN_CALL"))
          val last = out.groupBy(_.subtask).values.map(_.maxBy(_.parts.size).parts)
          assert(last.flatten.toSeq.sorted == keys.flatMap(Seq.fill(run + 1)(_)))
        }
    }

  test("mistakes of raw state") {
    def failure(write: KeyedStateCheckpointOutputStream => Unit): String = {
      val stream = new Stream[Long](s"mistakes${System.nanoTime}")
      intercept[Exception](
        stream.run(_.keyBy(identity).flatMap(new RawMistakes(write)))(Seq(1L))
      ).getMessage
    }
    assert(failure(_.startNewKeyGroup(128)).contains("KEYSTATE_RAW_STREAM"))
    assert(failure { out =>
      val group = out.getKeyGroupList.head
      out.startNewKeyGroup(group)
      out.startNewKeyGroup(group)
    }.contains("was begun already"))
    assert(failure(_.write(1)).contains("Call startNewKeyGroup before write"))
    val without = spark.range(3).as[Long].stream.flatMap(new RawMistakes(_ => ()))
    val message = intercept[Exception](without.collect()).getMessage
    assert(message.contains("Raw keyed state needs a key"))
  }

  test("streams without keys, of plain functions and in a batch") {
    val data = spark.range(0, 100, 1, 3).as[Long]
    assert(data.stream.map((n: Long) => n * 2).collect().sum == 9900)
    assert(data.stream.filter((n: Long) => n < 10).count() == 10)
    assert(data.stream.flatMap((n: Long) => Seq(n, n)).count() == 200)
    val out = data.stream.process(new Buffer(2)).collect()
    // Each of three partitions is left with at most one element.
    assert(out.length >= 97 && out.map(_.value).distinct.length == out.length)
    assert(out.forall(emitted => !emitted.restored))
  }

  test("mistakes") {
    def declared(initialize: FunctionInitializationContext => Any) =
      intercept[KeystateException](
        spark.range(3).as[Long].stream.process(new Does(initialize(_): Unit))
      ).getMessage
    def list(name: String) = ListStateDescriptor[Long](name)
    assert(declared { context =>
      context.getOperatorStateStore.getListState(list("twice"))
      context.getOperatorStateStore.getUnionListState(list("twice"))
    } == "[KEYSTATE_DECLARATION] Two states are named 'twice'.")
    assert(
      declared(_.getKeyedStateStore.getListState(list("keyed")))
        .contains("State 'keyed' needs a key: use data.keyed(column)")
    )
    assert(
      declared(_ => throw new IllegalStateException("mine"))
        .contains("initializeState failed on the driver: java.lang.IllegalStateException: mine")
    )
    assert(declared { context =>
      val descriptor = list("t")
      descriptor.enableTimeToLive(StateTtlConfig.newBuilder(Time.hours(1)).build())
      context.getOperatorStateStore.getListState(descriptor)
    }.contains("'t' is operator state, which has no time to live"))
    val timer = new Does(_ => (), _.timerService().registerEventTimeTimer(1))
    val failure = intercept[Exception](spark.range(3).as[Long].stream.process(timer).collect())
    assert(failure.getMessage.contains("Timers need a key"))
  }
}
