package org.apache.spark.sql.keystate.source

/** Runs a source's function next to the driver, in the function's language, from a query's first
  * micro-batch to its end. The query's thread calls it.
  */
private[keystate] trait SourceSession {

  /** Starts the function.
    *
    * @param batch
    *   the newest batch in the log; 0 if there is none
    * @param restored
    *   the header of that batch's file; None if there is none
    */
  def begin(batch: Long, restored: Option[Array[Byte]]): Unit

  /** Waits until the next batch is full, or its time is over. */
  def await(): Collected

  /** Ends a batch: what its file is to have. */
  def cut(batch: Long): CutBatch

  /** Notifies the function that a batch is committed. */
  def committed(batch: Long): Unit

  /** Ends the function. It may be called where `begin` was not. */
  def stop(): Unit
}

/** Makes what runs a source's function in one query. */
private[keystate] trait SourceFactory {
  def create(): SourceSession
}

/** The collected rows of a source.
  *
  * @param rows
  *   the number of rows for the next batch
  * @param waiting
  *   whether every instance has ended or is idle
  */
private[keystate] final case class Collected(rows: Long, waiting: Boolean)

/** The content of a batch's file.
  *
  * @param header
  *   JSON, with the state after the batch; see docs/sources.md
  * @param chunks
  *   the rows of each instance that has any, as Arrow IPC streams
  */
private[keystate] final case class CutBatch(header: Array[Byte], chunks: Seq[Array[Byte]])
