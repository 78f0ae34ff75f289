package keystate.sinks

import java.util.UUID

import scala.util.Try

import org.apache.spark.TaskContext

import keystate.errors.KeystateErrors
import keystate.{
  CheckpointListener, CheckpointedFunction, Counter, FunctionInitializationContext,
  FunctionSnapshotContext, ListState, ListStateDescriptor, RichSinkFunction, RuntimeContext,
  SinkFunction
}

/** Calls a [[TwoPhaseCommitSink]] as a function with operator state. An instance sees what counts:
  * the state that it restores is that of the last micro-batch in the commit log, and it is told
  * when its own micro-batch is in it. Python's `CommittingFunction` does the same.
  */
private[keystate] final class CommittingFunction[IN, TXN](sink: TwoPhaseCommitSink[IN, TXN])
    extends RichSinkFunction[IN]
    with CheckpointedFunction
    with CheckpointListener {
  import CommittingFunction._

  @transient private var state: ListState[TXN] = _
  @transient private var ids: TransactionIds = _
  @transient private var counts: Map[String, Counter] = _
  @transient private var open: Option[TXN] = None
  @transient private var prepared: Seq[TXN] = Nil
  @transient private var restored: Seq[TXN] = Nil
  private var last = -1L

  override def initializeState(context: FunctionInitializationContext): Unit = {
    state = context.getOperatorStateStore.getListState(
      new ListStateDescriptor("transactions", sink.transactionType)
    )
    restored = state.get().toSeq
    last = context.getRestoredCheckpointId.getOrElse(-1L)
  }

  override def open(context: RuntimeContext): Unit = {
    ids = new TransactionIds(context.getIndexOfThisSubtask)
    counts = Seq(Prepared, Committed, Recovered, Aborted).map { name =>
      name -> context.getMetricGroup.counter(name)
    }.toMap
    open = None
    prepared = Nil
    sink.open(context)
    restored.foreach { transaction =>
      sink.recoverAndCommit(transaction)
      counts(Recovered).inc()
    }
    endOthers()
  }

  override def notifyCheckpointComplete(checkpointId: Long): Unit = {
    prepared.foreach { transaction =>
      sink.commit(transaction)
      counts(Committed).inc()
    }
    prepared = Nil
    endOthers()
  }

  /** Ends what is prepared and does not count. */
  private def endOthers(): Unit = if (ids.isFirst)
    for ((id, transaction) <- sink.preparedTransactions(ids.prefix) if ids.isDead(id, last)) {
      sink.recoverAndAbort(transaction)
      counts(Aborted).inc()
    }

  override def invoke(value: IN, context: SinkFunction.Context): Unit = {
    if (open.isEmpty) open = Some(sink.beginTransaction(ids.make(last)))
    sink.invoke(open.get, value, context)
  }

  override def snapshotState(context: FunctionSnapshotContext): Unit = {
    open.foreach { transaction =>
      sink.preCommit(transaction)
      prepared :+= transaction
      open = None
      counts(Prepared).inc()
    }
    state.update(prepared)
    last = context.getCheckpointId
  }

  override def close(): Unit = {
    Option(open).flatten.foreach(sink.abort)
    sink.close()
  }
}

private object CommittingFunction {
  private val Format = "spark.sql.streaming.stateStore.checkpointFormatVersion"

  // Metrics in the query's progress; after a micro-batch with prepared ones another one follows.
  private val Prepared = "transactionsPrepared"
  private val Committed = "transactionsCommitted"
  private val Recovered = "transactionsRecovered"
  private val Aborted = "transactionsAborted"

  /** The ids of transactions: `keystate.QUERY.AFTER.SUBTASK.OWNER.UNIQUE`. AFTER is the last
    * micro-batch that counted when the transaction began. OWNER is the checkpoint's owner,
    * `CHECKPOINT-NUMBER`: a later one has a higher number.
    */
  final class TransactionIds(subtask: Int) {
    private val task = Option(TaskContext.get())
    private def told(name: String) = task.flatMap(of => Option(of.getLocalProperty(name)))

    if (task.nonEmpty && !told(Format).contains("2"))
      throw KeystateErrors.declaration(
        s"A TwoPhaseCommitSink needs $Format=2, which a query can change to at a restart."
      )

    private val owner = told("keystate.owner").getOrElse("none-0")
    val prefix: String = s"keystate.${told("sql.streaming.queryId").getOrElse("None")}."
    val isFirst: Boolean = subtask == 0 && task.nonEmpty

    /** The id of a transaction that begins after this micro-batch. */
    def make(last: Long): String =
      s"$prefix$last.$subtask.$owner.${UUID.randomUUID.toString.takeRight(12)}"

    /** Whether a prepared transaction can't count any more. What counts of the last micro-batch is
      * being committed by all subtasks now; what counted before is committed. Of the current one
      * only attempts of an earlier owner are dead: those of this owner may still count.
      */
    def isDead(id: String, last: Long): Boolean = id.stripPrefix(prefix).split('.') match {
      case Array(after, _, of, _) =>
        Try {
          if (after.toLong == last)
            placeOf(of)._1 == placeOf(owner)._1 && placeOf(of)._2 < placeOf(owner)._2
          else after.toLong < last - 1
        }.getOrElse(false) // somebody else's
      case _ => false
    }

    private def placeOf(owner: String) = owner.splitAt(owner.lastIndexOf('-')) match {
      case (checkpoint, number) => (checkpoint, number.drop(1).toLong)
    }
  }
}
