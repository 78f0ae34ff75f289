package keystate

import java.sql.Timestamp

import keystate.errors.KeystateErrors

/** A row or timer whose call failed.
  *
  * @param id
  *   identifies the dead letter within its operator; a micro-batch that is run again gives the same
  * @param key
  *   the key as JSON; null without keys
  * @param row
  *   the input element; null for a timer
  * @param input
  *   the input of the element, 1 or 2, in a function of two inputs; else null
  * @param timer
  *   the timer's time in ms since the epoch; null for an element
  * @param timerDomain
  *   `event_time` or `processing_time`; null for an element. Its column is `timer_domain`
  * @param error
  *   the error's class
  * @param message
  *   the error's message; only the start and the end of a very long one
  * @param traceback
  *   the part of the error's stack trace that is in the function
  * @param batch
  *   the id of the micro-batch; null in a batch query
  * @param time
  *   when the micro-batch started; null in a batch query
  */
final case class DeadLetter[T](
    id: String,
    key: String,
    row: T,
    input: java.lang.Integer,
    timer: java.lang.Long,
    timerDomain: String,
    error: String,
    message: String,
    traceback: String,
    batch: java.lang.Long,
    time: Timestamp
) {

  /** Used by the encoder, which gets a column by its name. */
  private[keystate] def timer_domain: String = timerDomain
}

object DeadLetter {

  /** Has the same columns as dead letters of Python. */
  implicit def typeInformation[T](implicit
      row: TypeInformation[T]
  ): TypeInformation[DeadLetter[T]] = {
    val (text, long) = (TypeInformation.derived[String], TypeInformation.derived[java.lang.Long])
    TypeInformation.struct[DeadLetter[T]](
      "id" -> text,
      "key" -> text,
      "row" -> row,
      "input" -> TypeInformation.derived[java.lang.Integer],
      "timer" -> long,
      "timer_domain" -> text,
      "error" -> text,
      "message" -> text,
      "traceback" -> text,
      "batch" -> long,
      "time" -> TypeInformation.derived[Timestamp]
    )
  }
}

/** A policy for `onError`: a row or timer whose call fails goes to a side output.
  *
  * All effects of the failed call are undone: its changes of keyed state and timers, and its
  * results. The query goes on with the next row or timer. If nothing reads the side output, dead
  * letters are only counted, as `keystateDeadLetters` in the progress.
  *
  * Each subtask counts for itself, and starts from 0 in each micro-batch. The query fails with a
  * summary (`KEYSTATE_TOO_MANY_DEAD_LETTERS`) when a limit is exceeded; without limits any number
  * may fail. An invalid limit is `KEYSTATE_DECLARATION`.
  *
  * @param tag
  *   a tag of dead letters whose rows are the stream's elements:
  *   `OutputTag[DeadLetter[Sale]]("dead")`; or of dead letters whose rows are JSON, for elements of
  *   any type: `OutputTag[DeadLetter[String]]("dead")`
  * @param maxInBatch
  *   how many rows and timers may fail in a subtask in a micro-batch
  * @param maxInARow
  *   how many may fail one after the other, without a success between them
  * @param maxShare
  *   the share of a micro-batch's rows and timers that may fail in a subtask, from 0 to 1
  */
final case class DeadLetters[T](
    tag: OutputTag[DeadLetter[T]],
    maxInBatch: Option[Int] = None,
    maxInARow: Option[Int] = None,
    maxShare: Option[Double] = None
) {
  for ((name, most) <- Seq("maxInBatch" -> maxInBatch, "maxInARow" -> maxInARow))
    most.filter(_ < 0).foreach { number =>
      throw KeystateErrors.declaration(s"$name is a number of rows of at least 0, not $number.")
    }
  maxShare.filterNot(share => 0 <= share && share <= 1).foreach { share =>
    throw KeystateErrors.declaration(s"maxShare is a share from 0 to 1, not $share.")
  }
}
