package org.apache.spark.sql.keystate.savepoint

import java.util.UUID

import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.checkpoint.QueryCheckpoint
import org.apache.spark.sql.keystate.files.{OwnerFiles, QueryLogs}

/** The query of a checkpoint's copy.
  *
  * @param query
  *   the id of its query
  * @param successor
  *   for a copy that will replace a checkpoint
  */
private[keystate] final case class CopyIdentity(
    query: String = UUID.randomUUID.toString,
    successor: Option[OwnerFiles.Successor] = None
)

private[keystate] object CopyIdentity {

  /** For a copy that will replace a checkpoint. */
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
