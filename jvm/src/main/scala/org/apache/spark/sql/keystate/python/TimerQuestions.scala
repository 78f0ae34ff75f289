package org.apache.spark.sql.keystate.python

import org.json4s.JsonAST.JObject

import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.ArrowColumnVector

import org.apache.spark.sql.keystate.encoding.ArrowStreams
import org.apache.spark.sql.keystate.spec.Protocol

/** Takes the worker's changes immediately, and sends it the timers that are due then. The worker
  * asks when it has set timers of keys that it has dropped. So all timers fire in one conversation.
  */
private[keystate] object TimerQuestions {
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
      task.timersLeft(messageSchema, pages).fold(Questions.Nothing)((JObject(), _))
    }
  )
}
