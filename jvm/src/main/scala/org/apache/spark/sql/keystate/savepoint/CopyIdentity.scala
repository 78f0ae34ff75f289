package org.apache.spark.sql.keystate.savepoint

import java.util.UUID

import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.checkpoint.QueryCheckpoint
import org.apache.spark.sql.keystate.files.{OwnerFiles, QueryLogs}

/** Which query a copy of a checkpoint is for.
  *
  * @param query
  *   the id of its query
  * @param successor
  *   of a copy that is to take the place of a checkpoint
  */
private[keystate] final case class CopyIdentity(
    query: String = UUID.randomUUID.toString,
    successor: Option[OwnerFiles.Successor] = None
)

private[keystate] object CopyIdentity {

  /** Of a copy that is to take the place of a checkpoint. */
  def ofSuccessor(original: QueryCheckpoint): CopyIdentity = {
    val query = QueryLogs
      .query(original.root, original.files)
      .getOrElse(throw KeystateErrors.noCheckpoint(s"${original.root}"))
    val batch = original.lastBatch
    CopyIdentity(query, Some(OwnerFiles.Successor(s"${original.root}", query, batch)))
  }

  /** The file that only forks have. */
  final val ForkMark = "_keystate/fork/made"
}
