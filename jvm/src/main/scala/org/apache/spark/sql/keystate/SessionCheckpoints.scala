package org.apache.spark.sql.keystate

import java.util.UUID

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.json4s.jackson.JsonMethods.parse
import org.json4s.{DefaultFormats, Formats}

import org.apache.spark.sql.classic.{SparkSession => ClassicSparkSession}
import org.apache.spark.sql.execution.streaming.runtime.{StreamExecution, StreamingQueryWrapper}

import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.checkpoint.QueryCheckpoint
import org.apache.spark.sql.keystate.files.{CheckpointFiles, CheckpointOwner}

/** Checkpoints as a session names them. */
private[keystate] final class SessionCheckpoints(val session: ClassicSparkSession) {
  // Not all calls need it, and it is a copy of all of the session's settings.
  lazy val conf: Configuration = session.sessionState.newHadoopConf()

  /** The resolved place of a checkpoint. */
  def place(checkpoint: String): Path = new Path(CheckpointFiles.qualified(checkpoint, conf))

  /** The resolved place of a checkpoint. Throws if a query is running on it, in this session or in
    * another process of this machine. A query on another machine is not noticed.
    */
  def stopped(checkpoint: String): Path = {
    val root = place(checkpoint)
    session.streams.active.foreach {
      case query: StreamingQueryWrapper
          if CheckpointFiles.isSamePlace(
            new Path(query.streamingQuery.resolvedCheckpointRoot),
            root
          ) =>
        throw KeystateErrors.queryIsRunning(checkpoint)
      case _ =>
    }
    CheckpointOwner
      .aliveElsewhere(root, conf)
      .foreach(who => throw KeystateErrors.queryIsRunning(checkpoint, Some(who)))
    root
  }

  def reading[T](checkpoint: String)(read: QueryCheckpoint => T): T =
    Using.resource(new QueryCheckpoint(conf, CheckpointFiles.qualified(checkpoint, conf)))(read)

  /** A query that is running, by its id. */
  def activeQuery(query: String): Option[StreamExecution] =
    Option(session.sharedState.activeStreamingQueries.get(UUID.fromString(query)))
}

private[keystate] object SessionCheckpoints {

  /** Old and new numbers of operators, from a list of pairs in JSON. */
  def numbers(json: String): Map[Long, Long] = {
    implicit val formats: Formats = DefaultFormats
    parse(json).extract[List[List[Long]]].map(of => of(0) -> of(1)).toMap
  }

  /** A number that is negative if there is none. */
  def numbered(number: Long): Option[Long] = Option.when(number >= 0)(number)
}
