package keystate

final case class Sale(key: Long, kind: String, x: Long)
final case class Rule(kind: String, factor: Option[Long])
final case class Factor(factor: Long, note: String)
final case class Priced(key: Long, total: Long, seen: Int, history: Seq[String], subtask: Int)

object Descriptors {
  def rules: MapStateDescriptor[String, Factor] = MapStateDescriptor[String, Factor]("rules")
  def log: MapStateDescriptor[Long, String] = MapStateDescriptor[Long, String]("log")
  def total: ValueStateDescriptor[Long] = ValueStateDescriptor("total", 0L)
  def seen: ListStateDescriptor[Long] = ListStateDescriptor[Long]("seen")
}

/** Multiplies by the factor of a sale's kind; a rule without a factor removes the kind's. */
class Pricing extends KeyedBroadcastProcessFunction[Long, Sale, Rule, Priced] {
  @transient private var total: ValueState[Long] = _
  @transient private var seen: ListState[Long] = _

  override def open(ctx: RuntimeContext): Unit = {
    total = ctx.getState(Descriptors.total)
    seen = ctx.getListState(Descriptors.seen)
  }

  override def processBroadcastElement(rule: Rule, ctx: Context, out: Collector[Priced]): Unit = {
    val rules = ctx.getBroadcastState(Descriptors.rules)
    val log = ctx.getBroadcastState(Descriptors.log)
    log.put(log.keys().size.toLong, s"${rule.kind}=${rule.factor.getOrElse("")}")
    rule.factor match {
      case Some(factor) => rules.put(rule.kind, Factor(factor, null))
      case None => rules.remove(rule.kind)
    }
    assert(rules.contains(rule.kind) == rule.factor.isDefined && !log.isEmpty())
  }

  override def processElement(sale: Sale, ctx: ReadOnlyContext, out: Collector[Priced]): Unit = {
    val rule = Option(ctx.getBroadcastState(Descriptors.rules).get(sale.kind))
    val log = ctx.getBroadcastState(Descriptors.log).entries().toSeq.sortBy(_.getKey)
    total.update(total.value() + sale.x * rule.fold(0L)(_.factor))
    seen.add(sale.x)
    val subtask = getRuntimeContext.getIndexOfThisSubtask
    out.collect(
      Priced(ctx.getCurrentKey, total.value(), seen.get().size, log.map(_.getValue), subtask)
    )
  }
}

/** What one uninterrupted run makes of the same. */
class ExpectedPrices {
  private var rules = Map.empty[String, Long]
  private var history = Vector.empty[String]
  private var totals = Map.empty[Long, Long].withDefaultValue(0L)
  private var seen = Map.empty[Long, Int].withDefaultValue(0)

  def feed(newRules: Seq[Rule], sales: Seq[Sale]): Seq[Priced] = {
    newRules.foreach { rule =>
      history :+= s"${rule.kind}=${rule.factor.getOrElse("")}"
      rules = rule.factor.fold(rules - rule.kind)(factor => rules + (rule.kind -> factor))
    }
    sales.map { sale =>
      totals += sale.key -> (totals(sale.key) + sale.x * rules.getOrElse(sale.kind, 0L))
      seen += sale.key -> (seen(sale.key) + 1)
      Priced(sale.key, totals(sale.key), seen(sale.key), history, 0)
    }
  }
}

/** A rule changes the state of every key; a timer tells the rules at the time it fires. */
class Resets extends KeyedBroadcastProcessFunction[Long, Sale, Rule, String] {
  @transient private var total: ValueState[Long] = _
  @transient private var seen: ListState[Long] = _

  override def open(ctx: RuntimeContext): Unit = {
    total = ctx.getState(Descriptors.total)
    seen = ctx.getListState(Descriptors.seen)
  }

  override def processBroadcastElement(rule: Rule, ctx: Context, out: Collector[String]): Unit = {
    assert(ctx.timestamp() == null && ctx.currentProcessingTime() > 0)
    rule.kind match {
      case "multiply" =>
        ctx.applyToKeyedState(
          Descriptors.total,
          (_: Long, total: ValueState[Long]) => {
            assert(seen.get().nonEmpty) // the key's other states are there too
            total.update(total.value() * rule.factor.get)
          }
        )
      case "drop" =>
        ctx.applyToKeyedState(
          Descriptors.seen,
          (key: Long, seen: ListState[Long]) => if (key % 2 == 0) seen.clear()
        )
      case "nested" =>
        ctx.applyToKeyedState(
          Descriptors.total,
          (_: Long, _: ValueState[Long]) =>
            ctx.applyToKeyedState(Descriptors.seen, (_: Long, _: ListState[Long]) => ())
        )
      case kind => ctx.getBroadcastState(Descriptors.rules).put(kind, Factor(1, "new"))
    }
  }

  override def processElement(sale: Sale, ctx: ReadOnlyContext, out: Collector[String]): Unit = {
    total.update(total.value() + sale.x)
    seen.add(sale.x)
    if (sale.kind == "timer") ctx.timerService().registerProcessingTimeTimer(0)
    else out.collect(s"${sale.key} ${total.value()} ${seen.get().size}")
  }

  override def onTimer(time: Long, ctx: OnTimerContext, out: Collector[String]): Unit = {
    val rules = ctx.getBroadcastState(Descriptors.rules).keys().toSeq.sorted.mkString(" ")
    out.collect(s"timer ${ctx.getCurrentKey} $rules")
  }
}

/** A rule adds to the values of all keys, and tells which keys it came to, by state. Both states
  * live for a second.
  */
class Living(returned: Boolean) extends KeyedBroadcastProcessFunction[Long, Sale, Rule, String] {
  private val ttl = {
    val builder = StateTtlConfig.newBuilder(Time.seconds(1)).disableCleanupInBackground()
    (if (returned) builder.returnExpiredIfNotCleanedUp() else builder).build()
  }
  private def value = ValueStateDescriptor[Long]("value")
  private def seen = ListStateDescriptor[Long]("seen")
  @transient private var valueOfKey: ValueState[Long] = _
  @transient private var seenOfKey: ListState[Long] = _

  override def open(ctx: RuntimeContext): Unit = {
    val (values, lists) = (value, seen)
    values.enableTimeToLive(ttl)
    lists.enableTimeToLive(ttl)
    valueOfKey = ctx.getState(values)
    seenOfKey = ctx.getListState(lists)
  }

  override def processBroadcastElement(rule: Rule, ctx: Context, out: Collector[String]): Unit = {
    ctx.applyToKeyedState(
      value,
      (key: Long, state: ValueState[Long]) => {
        out.collect(s"$key ${state.value()}")
        state.update(state.value() + 1)
      }
    )
    ctx.applyToKeyedState(seen, (key: Long, _: ListState[Long]) => out.collect(s"seen $key"))
  }

  override def processElement(sale: Sale, ctx: ReadOnlyContext, out: Collector[String]): Unit = {
    valueOfKey.update(sale.x)
    seenOfKey.add(sale.x)
  }
}

/** Without keys; keeps hold of a state that it may write for broadcast elements only. */
class Tags(mistake: String = "") extends BroadcastProcessFunction[Sale, Rule, (Long, String, Int)] {
  @transient private var held: BroadcastState[String, Factor] = _

  override def processBroadcastElement(
      rule: Rule,
      ctx: Context,
      out: Collector[(Long, String, Int)]
  ): Unit = {
    held = ctx.getBroadcastState(Descriptors.rules)
    held.putAll(rule.factor.map(factor => rule.kind -> Factor(factor, "x")))
    if (mistake == "failure") throw new IllegalStateException("mine")
    out.collect((-1, rule.kind, getRuntimeContext.getIndexOfThisSubtask))
  }

  override def processElement(
      sale: Sale,
      ctx: ReadOnlyContext,
      out: Collector[(Long, String, Int)]
  ): Unit = {
    if (mistake == "write") held.clear()
    if (mistake == "unknown") ctx.getBroadcastState(Descriptors.log)
    val known = ctx.getBroadcastState(Descriptors.rules).get(sale.kind)
    val tag = Option(known).map(rule => s"${rule.factor}${rule.note}").orNull
    out.collect((sale.x, tag, getRuntimeContext.getIndexOfThisSubtask))
  }
}
