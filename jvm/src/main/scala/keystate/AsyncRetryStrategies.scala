package keystate

import keystate.errors.KeystateErrors

/** Decides when an element whose call failed is processed again, and how soon. The timeout covers
  * all attempts together. If another attempt follows, the results of the failed attempt are
  * dropped, but its changes of states and timers stay.
  */
trait AsyncRetryStrategy[OUT] extends Serializable {

  /** Whether another attempt may follow after this number of attempts (at least 1). */
  def canRetry(currentAttempts: Int): Boolean

  /** How long to wait before the next attempt, in ms. */
  def getBackoffTimeMillis(currentAttempts: Int): Long

  /** Decides which outcomes cause another attempt. */
  def getRetryPredicate: AsyncRetryPredicate[OUT]
}

/** Decides which outcomes cause another attempt. Without either predicate, every exception does. */
trait AsyncRetryPredicate[OUT] extends Serializable {

  /** Decides by the results. None: no results cause another attempt. */
  def resultPredicate: Option[Iterable[OUT] => Boolean]

  /** Decides by the exception. None: every exception causes another attempt if there is no result
    * predicate, otherwise no exception does.
    */
  def exceptionPredicate: Option[Throwable => Boolean]
}

/** Strategies with Flink's names. */
object AsyncRetryStrategies {

  /** Waits the same time before each further attempt.
    *
    * @param maxAttempts
    *   the maximum number of attempts after the first one
    * @param backoffTimeMillis
    *   how long to wait before each
    */
  final class FixedDelayRetryStrategyBuilder[OUT](maxAttempts: Int, backoffTimeMillis: Long)
      extends Builder[OUT, FixedDelayRetryStrategyBuilder[OUT]](maxAttempts) {
    check(
      maxAttempts >= 1 && backoffTimeMillis >= 0,
      s"at least 1 attempt and a delay of at least 0 ms, not $maxAttempts and $backoffTimeMillis"
    )
    override protected def backoff(currentAttempts: Int): Long = backoffTimeMillis
  }

  /** Waits longer before each attempt.
    *
    * @param maxAttempts
    *   the maximum number of attempts after the first one
    * @param initialDelay
    *   how long to wait before the first of them, in ms
    * @param maxRetryDelay
    *   the longest wait, in ms
    * @param multiplier
    *   the factor between one wait and the next
    */
  final class ExponentialBackoffDelayRetryStrategyBuilder[OUT](
      maxAttempts: Int,
      initialDelay: Long,
      maxRetryDelay: Long,
      multiplier: Double
  ) extends Builder[OUT, ExponentialBackoffDelayRetryStrategyBuilder[OUT]](maxAttempts) {
    check(
      maxAttempts >= 1 && initialDelay >= 0 && maxRetryDelay >= 0 && multiplier >= 1,
      "at least 1 attempt, delays of at least 0 ms and a multiplier of at least 1, not " +
        s"$maxAttempts, $initialDelay, $maxRetryDelay and $multiplier"
    )
    override protected def backoff(currentAttempts: Int): Long =
      math
        .min(initialDelay * math.pow(multiplier, currentAttempts - 1.0), maxRetryDelay.toDouble)
        .toLong
  }

  /** The part that the builders share. */
  sealed abstract class Builder[OUT, SELF](maxAttempts: Int) extends Serializable { self: SELF =>
    private var ofResult = Option.empty[Iterable[OUT] => Boolean]
    private var ofException = Option.empty[Throwable => Boolean]

    /** How long to wait after this many attempts, in ms. */
    protected def backoff(currentAttempts: Int): Long

    protected def check(holds: Boolean, needed: => String): Unit =
      if (!holds) throw KeystateErrors.declaration(s"A retry strategy needs $needed.")

    /** Processes an element again if the predicate is true of its results. */
    def ifResult(predicate: Iterable[OUT] => Boolean): SELF = {
      ofResult = Some(predicate)
      this
    }

    /** Processes an element again if the predicate is true of the exception; by default after every
      * exception.
      */
    def ifException(predicate: Throwable => Boolean): SELF = {
      ofException = Some(predicate)
      this
    }

    /** The strategy. */
    def build(): AsyncRetryStrategy[OUT] = {
      val predicates = new AsyncRetryPredicate[OUT] {
        override val resultPredicate: Option[Iterable[OUT] => Boolean] = ofResult
        override val exceptionPredicate: Option[Throwable => Boolean] = ofException
      }
      new AsyncRetryStrategy[OUT] {
        override def canRetry(currentAttempts: Int): Boolean = currentAttempts <= maxAttempts
        override def getBackoffTimeMillis(currentAttempts: Int): Long = backoff(currentAttempts)
        override def getRetryPredicate: AsyncRetryPredicate[OUT] = predicates
      }
    }
  }
}
