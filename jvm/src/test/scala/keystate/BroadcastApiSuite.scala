package keystate

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Dataset

import keystate.errors.KeystateException

class BroadcastApiSuite extends AnyFunSuite with SessionFixture {
  import spark.implicits._

  private val partitions = "spark.sql.shuffle.partitions"

  private def priced(sales: Dataset[Sale], rules: Dataset[Rule]): Dataset[Priced] = sales
    .keyBy(_.key)
    .maxParallelism(16)
    .connect(rules.broadcast(Descriptors.rules, Descriptors.log))
    .process(new Pricing)

  private def sorted(emitted: Seq[Priced]) =
    emitted.map(_.copy(subtask = 0)).sortBy(priced => (priced.key, priced.seen))

  private val names = Seq("a", "b", "c")

  private def randomRules(random: Random) = Seq.fill(random.nextInt(5))(
    Rule(names(random.nextInt(3)), Option.when(random.nextInt(3) > 0)(random.nextInt(9).toLong))
  )

  private def randomSales(random: Random) = Seq.fill(random.nextInt(40))(
    Sale(random.nextInt(9).toLong, names(random.nextInt(3)), random.nextInt(100).toLong)
  )

  test("restarts and rescales") {
    val seed = Random.nextInt()
    val random = new Random(seed)
    val expected = new ExpectedPrices
    val sales = new Stream[Sale]("sales")
    val rules = new Stream[Rule]("rules")
    withSetting("spark.keystate.broadcast.check", "true") {
      for ((n, i) <- Seq(1, 3, 1, 4, 2).zipWithIndex)
        withSetting(partitions, n.toString) {
          // Only rules, or none at all: every subtask must have them all the same.
          val newRules = if (i == 2) Nil else randomRules(random)
          val newSales = if (i == 3) Nil else randomSales(random)
          rules.feed(newRules)
          val emitted = sales.run(priced(_, rules.toDS))(newSales)
          assert(sorted(emitted) == sorted(expected.feed(newRules, newSales)), s"seed $seed")
          assert(emitted.forall(_.subtask < n))
        }
    }
  }

  test("a batch, and a static side that is broadcast once") {
    val rules = Seq(Rule("a", Some(2)), Rule("b", Some(3)), Rule("a", Some(4)))
    val sales = Seq.tabulate(20)(i => Sale(i % 5L, names(i % 2), i.toLong))
    val table = rules.toDS().coalesce(1)
    assert(
      sorted(priced(sales.toDS().coalesce(1), table).collect().toSeq) ==
        sorted(new ExpectedPrices().feed(rules, sales))
    )
    val expected = new ExpectedPrices
    val stream = new Stream[Sale]("static")
    for (i <- 0 until 2)
      assert(
        sorted(stream.run(priced(_, table))(sales)) ==
          sorted(expected.feed(if (i == 0) rules else Nil, sales))
      )
  }

  test("every key's state can be changed, and timers see the rules") {
    val sales = new Stream[Sale]("resets")
    val rules = new Stream[Rule]("reset rules")
    def run(newRules: Rule*)(newSales: Sale*): Seq[String] = {
      rules.feed(newRules)
      sales
        .run(
          _.keyed("key")
            .timeMode("processing_time")
            .connect(rules.toDS.broadcast(Descriptors.rules))
            .process(new Resets)
        )(newSales)
        .sorted
    }
    run()((0L until 50L).map(key => Sale(key, "", key)): _*)
    val multiply = Rule("multiply", Some(3))
    assert(run(multiply, multiply, Rule("drop", None))(Sale(4, "", 1)) == Seq("4 37 1"))
    assert(run()(Sale(6, "", 0), Sale(7, "", 0)) == Seq("6 54 1", "7 63 2"))
    val fired = run(Rule("gold", None))(Sale(8, "timer", 0)) ++ run()(Sale(9, "", 0))
    assert(fired.sorted == Seq("9 81 2", "timer 8 gold"))
    val nested = intercept[Exception](run(Rule("nested", None))())
    assert(causes(nested).exists(_.contains("[KEYSTATE_NOT_IN_CALL] applyToKeyedState can only")))
  }

  test("without keys") {
    val sales = new Stream[Sale]("plain")
    val rules = new Stream[Rule]("plain rules")
    def run(newRules: Rule*)(newSales: Seq[Sale]) = {
      rules.feed(newRules)
      sales
        .run(_.stream.connect(rules.toDS.broadcast(Descriptors.rules)).process(new Tags))(newSales)
    }
    withSetting(partitions, "3") {
      val out = run(Rule("a", Some(1)))((0L until 60L).map(x => Sale(0, names(x.toInt % 2), x)))
      assert(out.filter(_._1 < 0).map(_._3).sorted == Seq(0, 1, 2))
      val tags = out.filter(_._1 >= 0)
      assert(tags.forall { case (x, tag, _) => tag == (if (x % 2 == 0) "1x" else null) })
      assert(tags.size == 60 && tags.map(_._3).toSet == Set(0, 1, 2))
    }
    withSetting(partitions, "2") {
      assert(run()(Seq(Sale(0, "a", 1))).map(tag => (tag._1, tag._2)) == Seq((1L, "1x")))
    }
  }

  test("mistakes") {
    val sales = Seq(Sale(1, "a", 1)).toDS()
    val rules = Seq(Rule("a", Some(1))).toDS()
    def running(mistake: String) = causes(
      intercept[Exception](
        sales.stream
          .connect(rules.broadcast(Descriptors.rules))
          .process(new Tags(mistake))
          .collect()
      )
    )
    assert(running("write").exists(_.contains("Broadcast state 'rules' can only be read here")))
    assert(
      running("unknown")
        .exists(_.contains("There is no broadcast state 'log': pass its descriptor"))
    )
    assert(
      running("failure").exists(_.contains("while processing broadcast element Rule(a,Some(1))"))
    )
    def declaring(descriptors: MapStateDescriptor[_, _]*) = intercept[KeystateException](
      sales.keyed("key").connect(rules.broadcast(descriptors: _*)).process(new Pricing)
    ).getMessage
    assert(declaring().contains("broadcast needs at least one MapStateDescriptor"))
    assert(
      declaring(MapStateDescriptor[Int, Int]("total")).contains("Two states are named 'total'")
    )
    val stream = new Stream[Rule]("never run")
    assert(
      intercept[KeystateException](
        sales.stream.connect(stream.toDS.broadcast(Descriptors.rules)).process(new Tags)
      ).getMessage.contains("A stream can't be broadcast to a batch Dataset")
    )
  }

  private def causes(failure: Throwable): Seq[String] =
    Iterator.iterate(failure)(_.getCause).takeWhile(_ != null).map(_.getMessage).toSeq
}
