package org.apache.spark.sql.keystate.forget

import keystate.errors.KeystateErrors

/** Copies the requests to forget keys into a copy of a checkpoint. So a key is forgotten in the
  * copy too, whether or not the original has forgotten it.
  *
  * @param last
  *   the last micro-batch that is committed in the copy
  * @param operators
  *   the operators whose keys are unchanged in the copy, and their numbers there
  */
private[keystate] final class CarriedRequests(
    from: ForgetFiles,
    last: Long,
    operators: Long => Option[Long]
) {
  // The claims first: a request without a claim then still exists.
  private val listed = from.list()
  private val claims = listed.claims.flatMap(from.claimOf(_))
  private val requests = listed.requests.toSeq.sorted.flatMap(id => from.keysOf(id).map(id -> _))

  /** Throws if the copy can't forget a key that nobody has forgotten yet.
    *
    * @param checkpoint
    *   the path of the original, for the message
    */
  def checkNoneLost(checkpoint: String): Unit = {
    val done = claims.filter(_.batch <= last).flatMap(_.requests).toSet
    for ((id, keys) <- requests if !done(id)) {
      val lost = keysLost(keys)
      if (lost.nonEmpty) throw KeystateErrors.losesRequest(checkpoint, id, lost)
    }
  }

  private def keysLost(keys: Seq[ForgottenKey]): Seq[Long] =
    keys.map(_.operator).distinct.filter(operators(_).isEmpty)

  /** Writes the requests and claims that the copy lacks.
    *
    * @param begun
    *   the last micro-batch that the copy has or begins with, whose claim it takes over. Keys that
    *   later ones forgot are new requests to it
    */
  def write(to: ForgetFiles, begun: Long): Unit = {
    requests.foreach { case (id, keys) => to.addRequest(id, renumbered(keys)) }
    writeClaims(to, _ <= begun)
  }

  /** Writes the claims of these micro-batches, for a copy that runs the same ones. */
  def writeClaims(to: ForgetFiles, batches: Long => Boolean): Unit =
    claims.filter(claim => batches(claim.batch)).foreach { claim =>
      to.claim(claim.copy(keys = renumbered(claim.keys)))
    }

  private def renumbered(keys: Seq[ForgottenKey]): Seq[ForgottenKey] =
    keys.flatMap(key => operators(key.operator).map(as => key.copy(operator = as)))
}

private[keystate] object CarriedRequests {

  /** Takes along what the original was asked for before it moved to this copy, and after its promotion
    * had looked: that may have been cut off before it looked again.
    */
  def late(to: ForgetFiles): Unit = {
    to.origin.foreach { origin =>
      val operators = origin.operators.map { case (number, as) => number.toLong -> as }
      new CarriedRequests(to.of(origin.checkpoint), origin.batch, operators.get)
        .write(to, origin.batch + 1)
    }
    to.deleteOrigin()
  }
}
