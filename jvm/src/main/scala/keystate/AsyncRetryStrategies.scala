package keystate

import keystate.errors.KeystateErrors

/** When an element whose call failed is processed again, and how soon. All attempts together have
  * the timeout. What an attempt emitted is dropped if another one follows; what it did to states
  * and timers stays.
  */
trait AsyncRetryStrategy[OUT] extends Serializable {

  /** Whether another attempt may follow these, of which there is at least one. */
  def canRetry(currentAttempts: Int): Boolean

  /** How long to wait before it, in ms. */
  def getBackoffTimeMillis(currentAttempts: Int): Long

  /** Which outcomes ask for another attempt. */
  def getRetryPredicate: AsyncRetryPredicate[OUT]
}

/** Which outcomes ask for another attempt. If neither predicate is there, every exception does. */
trait AsyncRetryPredicate[OUT] extends Serializable {

  /** Of the results. None: none do. */
  def resultPredicate: Option[Iterable[OUT] => Boolean]

  /** Of an exception. None: every exception does if there is no predicate of results, else none. */
  def exceptionPredicate: Option[Throwable => Boolean]
}

/** Strategies with Flink's names. */
object AsyncRetryStrategies {

  /** Tries again after the same time.
    *
    * @param maxAttempts
    *   how often at most, after the first attempt
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
    *   how often at most, after the first attempt
    * @param initialDelay
    *   how long to wait before the first of them, in ms
    * @param maxRetryDelay
    *   the most to wait, in ms
    * @param multiplier
    *   by how much a wait is longer than the one before
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

  /** What the builders have in common. */
  sealed abstract class Builder[OUT, SELF](maxAttempts: Int) extends Serializable { self: SELF =>
    private var ofResult = Option.empty[Iterable[OUT] => Boolean]
    private var ofException = Option.empty[Throwable => Boolean]

    /** How long to wait after so many attempts, in ms. */
    protected def backoff(currentAttempts: Int): Long

    protected def check(holds: Boolean, needed: => String): Unit =
      if (!holds) throw KeystateErrors.declaration(s"A retry strategy needs $needed.")

    /** An element is tried again if this is true of its results. */
    def ifResult(predicate: Iterable[OUT] => Boolean): SELF = {
      ofResult = Some(predicate)
      this
    }

    /** An element is tried again if this is true of the exception; by default after each. */
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
