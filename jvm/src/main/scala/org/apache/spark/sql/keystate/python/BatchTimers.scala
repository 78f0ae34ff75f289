package org.apache.spark.sql.keystate.python

import org.json4s.JsonAST.JObject

import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.ArrowColumnVector

import org.apache.spark.sql.keystate.encoding.ArrowStreams
import org.apache.spark.sql.keystate.python.protocol.Protocol

/** In a batch query: takes the worker's changes as soon as it has them, and gives it the timers
  * that these set. So all timers fire in one conversation, with the function as it was opened.
  */
private[keystate] object BatchTimers {
  def questions(
      task: RowConversation,
      messageSchema: StructType,
      pages: ArrowStreams
  ): Questions.Table = Map(
    Protocol.Op.Changes -> { (_, data) =>
      pages.readVectors(data) { changes =>
        task.applyChanges(name => new ArrowColumnVector(changes.getVector(name)))
      }
      Questions.Nothing
    },
    Protocol.Op.Timers -> { (_, _) =>
      task.timersOfBatch(messageSchema, pages).fold(Questions.Nothing)((JObject(), _))
    }
  )
}
