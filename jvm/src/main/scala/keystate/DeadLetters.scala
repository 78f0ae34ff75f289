package keystate

import java.sql.Timestamp

import keystate.errors.KeystateErrors

/** A row or timer that a function failed on.
  *
  * @param id
  *   tells the dead letters of an operator apart; a micro-batch that is run again gives the same
  * @param key
  *   the key as JSON; null without keys
  * @param row
  *   the element as it came; null of a timer
  * @param input
  *   of a function of two inputs, which one the element is of: 1 or 2; else null
  * @param timer
  *   the timer's time in ms since the epoch; null of an element
  * @param timerDomain
  *   `event_time` or `processing_time`; null of an element. Its column is `timer_domain`
  * @param error
  *   the error's class
  * @param message
  *   its message; of a very long one beginning and end
  * @param traceback
  *   its stack trace, as far as it is in the function
  * @param batch
  *   the id of the micro-batch; null in a batch query
  * @param time
  *   when the micro-batch began; null in a batch query
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

  /** For the encoder, which gets a column by its name. */
  private[keystate] def timer_domain: String = timerDomain
}

object DeadLetter {

  /** The columns that dead letters of Python have too. */
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

/** A policy for `onError`: a row or timer that the function fails on goes to a side output.
  *
  * What the function did for it is undone: all changes of keyed state and of timers, and all that it
  * emitted. The query goes on with the next one. If the side output is not read, dead letters are
  * only counted, by `keystateDeadLetters` in the progress.
  *
  * Each subtask counts for itself, and begins anew with each micro-batch. The query fails with a
  * summary (`KEYSTATE_TOO_MANY_DEAD_LETTERS`) when there are more than a limit says; without one
  * there may be any number. A limit that can't be is `KEYSTATE_DECLARATION`.
  *
  * @param tag
  *   of dead letters whose rows are the stream's elements: `OutputTag[DeadLetter[Sale]]("dead")`;
  *   or of dead letters whose rows are JSON, for elements of any type:
  *   `OutputTag[DeadLetter[String]]("dead")`
  * @param maxInBatch
  *   how many rows and timers of a micro-batch may fail in a subtask
  * @param maxInARow
  *   how many may fail one after the other, with none between that does not
  * @param maxShare
  *   which part of those of a micro-batch may fail in a subtask, from 0 to 1
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
