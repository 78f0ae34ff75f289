package keystate

import java.sql.Timestamp

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Dataset

import keystate.errors.KeystateException

final case class Deposit(account: String, amount: Long, at: Timestamp)
final case class Opening(balance: Long, owner: String)

/** Adds deposits to what an account was opened with; a timer tells of it. */
class Balances
    extends KeyedProcessFunction[String, Deposit, String]
    with InitialStateFunction[String, Opening] {
  @transient private var balance: ValueState[Long] = _

  override def open(context: RuntimeContext): Unit =
    balance = context.getState(new ValueStateDescriptor("balance", createTypeInformation[Long], 0L))

  override def processInitialState(opening: Opening, ctx: ProcessContext[String]): Unit = {
    balance.update(2 * balance.value() + opening.balance)
    if (ctx.timerService().currentWatermark() >= 0)
      ctx.timerService().registerEventTimeTimer(opening.balance)
  }

  override def processElement(deposit: Deposit, ctx: Context, out: Collector[String]): Unit = {
    balance.update(balance.value() + deposit.amount)
    out.collect(s"${ctx.getCurrentKey} ${balance.value()}")
  }

  override def onTimer(timestamp: Long, ctx: OnTimerContext, out: Collector[String]): Unit =
    out.collect(s"${ctx.getCurrentKey} opened with $timestamp")
}

class InitialStateSuite extends AnyFunSuite with SessionFixture {
  import spark.implicits._

  private val openings = Seq(Opening(5, "a"), Opening(7, "b"), Opening(1, "b"), Opening(9, null))

  private def balances(deposits: Dataset[Deposit]): Dataset[String] =
    deposits
      .withWatermark("at", "0 seconds")
      .keyBy(_.account)
      .process(new Balances, openings.toDS().repartition(3).keyBy(_.owner).orderBy("balance"))

  private def deposit(account: String, amount: Long) = Deposit(account, amount, new Timestamp(6))

  test("a stream, its restart with other partitions, and without initial state") {
    val deposits = new Stream[Deposit]("deposits")
    deposits.feed(Seq(deposit("a", 10), deposit("b", 100), deposit("c", 1000)))
    val first = deposits.run(balances)(Nil).sorted
    assert(first == Seq("a 15", "a opened with 5", "b 109", "b opened with 1", "c 1000"))
    withSetting("spark.sql.shuffle.partitions", "5") {
      deposits.feed(Seq(Deposit(null, 1, new Timestamp(7)), Deposit("b", 2, new Timestamp(7))))
      assert(deposits.run(balances)(Nil).sorted == Seq("b 111", "b opened with 7", "null 10"))
    }
    deposits.feed(Seq(Deposit("a", 1, new Timestamp(20))))
    val last = deposits.run { rows =>
      rows.withWatermark("at", "0 seconds").keyBy(_.account).process(new Balances)
    }(Nil)
    assert(last.sorted == Seq("a 16", "null opened with 9"))
  }

  test("a batch, keyed by columns") {
    val found = Seq(deposit("b", 100))
      .toDS()
      .keyed("account")
      .process(new Balances, openings.toDS().keyed("owner").orderBy($"balance".desc))
    assert(found.collect().toSeq.contains("b 115"))
  }

  test("what can't be initial state") {
    val keyed = Seq(deposit("b", 100)).toDS().keyed("account")
    def refused(part: String)(call: => Any) = {
      val error = intercept[KeystateException](call)
      assert(error.code == "KEYSTATE_DECLARATION" && error.getMessage.contains(part))
    }
    refused("of the initial state (balance BIGINT)")(
      keyed.process(new Balances, openings.toDS().keyed("balance"))
    )
    val stream = new Stream[Opening]("openings")
    stream.feed(openings)
    refused("not a stream")(keyed.process(new Balances, stream.toDS.keyed("owner")))
  }
}
