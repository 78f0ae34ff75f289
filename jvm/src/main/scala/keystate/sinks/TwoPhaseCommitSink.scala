package keystate.sinks

import keystate.{RuntimeContext, SinkFunction, TypeInformation}

/** A sink for a system that prepares transactions and commits them later; pass it to `addSink`.
  *
  * A subtask writes its part of a micro-batch in a transaction, and prepares it. What was prepared
  * is in the checkpoint with the micro-batch. Once Spark's commit log has the micro-batch, it is
  * committed: when the next one begins, which Keystate asks for even without input, or after a
  * restart. What was prepared for a micro-batch that does not count is never committed.
  *
  * It needs version 2 of the checkpoint format, else `KEYSTATE_DECLARATION`: with version 1 an
  * attempt that Spark took for lost can replace what another one has recorded.
  *
  * @tparam TXN
  *   what names a transaction, in a form that can be stored
  */
abstract class TwoPhaseCommitSink[IN, TXN](implicit val transactionType: TypeInformation[TXN])
    extends Serializable {

  /** Prepares the sink. Also called once on the driver, on a copy. */
  def open(context: RuntimeContext): Unit = ()

  /** Releases what `open` took. */
  def close(): Unit = ()

  /** Begins a transaction.
    *
    * @param transactionId
    *   unique; letters, digits, `.` and `-`, fewer than 150. Name the transaction by it if
    *   `preparedTransactions` is to find it
    */
  def beginTransaction(transactionId: String): TXN

  /** Writes an element in a transaction. */
  def invoke(transaction: TXN, value: IN, context: SinkFunction.Context): Unit

  /** Prepares a transaction: from now on any process can commit it, whatever dies. */
  def preCommit(transaction: TXN): Unit

  /** Commits a transaction that was prepared. It may be called again for the same one. */
  def commit(transaction: TXN): Unit

  /** Ends a transaction that must not be committed. */
  def abort(transaction: TXN): Unit

  /** Commits a transaction that an earlier process prepared, if that is not yet done. Throw where you
    * can tell that it was aborted: its rows are lost.
    */
  def recoverAndCommit(transaction: TXN): Unit = commit(transaction)

  /** Ends a transaction that an earlier process prepared. */
  def recoverAndAbort(transaction: TXN): Unit = abort(transaction)

  /** The transactions that are prepared, by their ids, with such a prefix. Called in the first
    * subtask of each micro-batch, so that Keystate ends those of attempts that did not count.
    * Without it they stay prepared.
    */
  def preparedTransactions(prefix: String): Map[String, TXN] = Map.empty
}
