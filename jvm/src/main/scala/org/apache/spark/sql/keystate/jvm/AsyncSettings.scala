package org.apache.spark.sql.keystate.jvm

import java.time.Duration

import keystate.AsyncRetryStrategy
import keystate.errors.KeystateErrors

/** How the calls of an async function overlap.
  *
  * @param capacity
  *   how many calls of a subtask may be in flight
  * @param timeout
  *   how long an element may take; None: no limit
  * @param ordered
  *   whether results come in the order of the elements, and not in the order in which calls end
  */
final case class AsyncSettings(
    capacity: Int,
    timeout: Option[Duration],
    retry: Option[AsyncRetryStrategy[Any]],
    ordered: Boolean
) {
  if (capacity < 1)
    throw KeystateErrors.declaration(
      s"The capacity is a number of elements of at least 1, not $capacity."
    )
  timeout.filter(time => time.isZero || time.isNegative).foreach { time =>
    throw KeystateErrors.declaration(s"The timeout must be longer than nothing, not $time.")
  }

  /** In ns. None: there is none. */
  val timeoutNanos: Option[Long] = timeout.map { time =>
    try time.toNanos
    catch { case _: ArithmeticException => Long.MaxValue / 2 }
  }
}
