package keystate

import java.sql.Timestamp

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Dataset

import keystate.errors.KeystateException

final case class Payment(customer: String, amount: Int, at: Timestamp)
final case class Customer(since: Timestamp, name: String, id: String)

/** Names the payments of a customer. Those that wait for the name are told of by a timer. */
class NamedPayments extends KeyedCoProcessFunction[String, Payment, Customer, String] {
  @transient private var name: ValueState[String] = _
  @transient private var waiting: ListState[Int] = _

  override def open(context: RuntimeContext): Unit = {
    name = context.getState(new ValueStateDescriptor("name", createTypeInformation[String]))
    waiting = context.getListState(new ListStateDescriptor("waiting", createTypeInformation[Int]))
  }

  override def processElement1(payment: Payment, ctx: Context, out: Collector[String]): Unit =
    if (name.value() != null)
      out.collect(s"${name.value()} ${payment.amount} ${ctx.timestamp()}")
    else {
      waiting.add(payment.amount)
      if (ctx.timestamp() != null) ctx.timerService().registerEventTimeTimer(ctx.timestamp() + 10)
    }

  override def processElement2(customer: Customer, ctx: Context, out: Collector[String]): Unit = {
    name.update(customer.name)
    waiting.get().foreach(amount => out.collect(s"${customer.name} $amount late"))
    waiting.clear()
  }

  override def onTimer(timestamp: Long, ctx: OnTimerContext, out: Collector[String]): Unit =
    waiting.get().foreach(amount => out.collect(s"${ctx.getCurrentKey} $amount $timestamp"))
}

class CountBoth extends RichCoMapFunction[Payment, Customer, String] {
  @transient private var count: ValueState[Int] = _

  override def open(context: RuntimeContext): Unit =
    count = context.getState(new ValueStateDescriptor("count", createTypeInformation[Int], 0))

  private def counted(): Int = {
    count.update(count.value() + 1)
    count.value()
  }

  override def map1(value: Payment): String = s"${value.customer} ${value.amount} ${counted()}"
  override def map2(value: Customer): String = s"${value.id} ${value.name} ${counted()}"
}

class Repeated extends CoFlatMapFunction[Payment, Customer, String] {
  override def flatMap1(value: Payment, out: Collector[String]): Unit =
    (0 until value.amount).foreach(_ => out.collect(s"${value.customer} ${value.amount}"))
  override def flatMap2(value: Customer, out: Collector[String]): Unit = ()
}

class NamesAndAmounts extends CoMapFunction[Customer, Payment, String] {
  override def map1(value: Customer): String = value.name
  override def map2(value: Payment): String = s"${value.amount}"
}

class CoFunctionsSuite extends AnyFunSuite with SessionFixture {
  import spark.implicits._

  private def at(millis: Long) = new Timestamp(millis)

  private def named(payments: Dataset[Payment], customers: Dataset[Customer]): Dataset[String] =
    payments
      .withWatermark("at", "0 seconds")
      .keyBy(_.customer)
      .connect(customers.withWatermark("since", "0 seconds").keyBy(_.id))
      .process(new NamedPayments)

  test("two streams, with timers, restarts and rescaling") {
    val payments = new Stream[Payment]("payments")
    val customers = new Stream[Customer]("customers")
    // Both are there before the query starts, so that they come in one micro-batch.
    def run(newCustomers: Customer*)(newPayments: Payment*): Seq[String] = {
      customers.feed(newCustomers)
      payments.feed(newPayments)
      payments.run(named(_, customers.toDS))(Nil).sorted
    }
    val first = run(Customer(at(5), "Ann", "a"))(Payment("a", 1, at(7)), Payment("b", 2, at(8)))
    assert(first == Seq("Ann 1 late"))
    withSetting("spark.sql.shuffle.partitions", "5") {
      assert(run()(Payment("a", 3, at(90)), Payment("c", 4, at(60))) == Seq("Ann 3 90"))
      // The watermark is the lesser one, 5.
      val second = run(Customer(at(5), "dropped", "a"), Customer(at(80), "Cem", "c"))()
      assert(second == Seq("Cem 4 late"))
    }
    val third = run(Customer(at(100), "Dan", "d"))(Payment("a", 7, at(200)))
    assert(third == Seq("Ann 7 200", "b 2 18"))
    assert(run()(Payment("a", 8, at(100)), Payment("a", 9, at(101))) == Seq("Ann 9 101"))
  }

  test("two batches, by columns and merged by time; a table for a stream") {
    val payments = Seq(Payment("a", 1, at(10)), Payment("a", 2, at(30)), Payment(null, 3, at(1)))
    val customers = Seq(Customer(at(20), "Ann", "a"), Customer(at(0), "nobody", null))
    val connected = payments
      .toDS()
      .coalesce(1)
      .keyed("customer")
      .connect(customers.toDS().coalesce(1).keyed("id"))
    assert(
      connected.map(new CountBoth).collect().toSeq.sorted ==
        Seq("a 1 1", "a 2 2", "a Ann 3", "null 3 1", "null nobody 2")
    )
    assert(
      connected.orderedBy($"at", $"since").map(new CountBoth).collect().toSeq.sorted ==
        Seq("a 1 1", "a 2 3", "a Ann 2", "null 3 2", "null nobody 1")
    )
    val repeated = connected.orderedBy($"at".desc, $"since".desc).flatMap(new Repeated).collect()
    assert(repeated.toSeq.filter(_.startsWith("a")) == Seq("a 2", "a 2", "a 1"))

    val table = customers.take(1).toDS()
    val stream = new Stream[Payment]("with a table")
    def run(batch: Payment*) = stream.run(in =>
      table.keyBy(_.id).connect(in.keyBy(_.customer)).map(new NamesAndAmounts)
    )(batch)
    assert(run(payments.take(2): _*).sorted == Seq("1", "2", "Ann"))
    assert(run(payments.head) == Seq("1"))
  }

  test("mistakes") {
    val payments = Seq(Payment("a", 1, at(10))).toDS()
    val customers = Seq(Customer(at(20), "Ann", "a")).toDS()
    def mistake(body: => Dataset[String]) = intercept[KeystateException](body)
    val keys =
      mistake(payments.keyed("customer").connect(customers.keyed("since")).map(new CountBoth))
    assert(keys.code == "KEYSTATE_DECLARATION")
    assert(keys.getMessage.contains("customer STRING"))
    assert(keys.getMessage.contains("since TIMESTAMP"))
    val order = mistake(
      payments
        .keyed("customer")
        .connect(customers.keyed("id"))
        .orderedBy($"amount", $"since")
        .map(new CountBoth)
    )
    assert(order.getMessage.contains("amount ASC NULLS FIRST of type INT"))
    val groups = mistake(
      payments
        .keyed("customer")
        .maxParallelism(16)
        .connect(customers.keyed("id").maxParallelism(32))
        .map(new CountBoth)
    )
    assert(groups.getMessage.contains("16 and 32"))
  }
}
