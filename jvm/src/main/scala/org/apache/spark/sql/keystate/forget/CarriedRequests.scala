package org.apache.spark.sql.keystate.forget

import keystate.errors.KeystateErrors

/** What a copy of a checkpoint takes along of the keys that are to be forgotten. So a key is forgotten
  * in the copy too, whether or not the original came to it.
  *
  * @param last
  *   the last micro-batch that is committed in the copy
  * @param operators
  *   the operators of which the copy has the keys as they were, and their numbers there
  */
private[keystate] final class CarriedRequests(
    from: ForgetFiles,
    last: Long,
    operators: Long => Option[Long]
) {
  // The claims first: a request that none of them has is then still asked for.
  private val (ids, batches) = from.list()
  private val claims = batches.flatMap(from.claimOf(_))
  private val requests = ids.toSeq.sorted.flatMap(id => from.keysOf(id).map(id -> _))

  /** Throws if the copy can't be asked to forget a key that nobody has forgotten yet.
    *
    * @param checkpoint
    *   where the original is, for the message
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

  /** Writes what the copy does not have yet.
    *
    * @param begun
    *   the last micro-batch that the copy has or begins with, whose claim is its claim too. What
    *   later ones forgot is new to it
    */
  def write(to: ForgetFiles, begun: Long): Unit = {
    requests.foreach { case (id, keys) => to.addRequest(id, renumbered(keys)) }
    writeClaims(to, _ <= begun)
  }

  /** Writes what these micro-batches forget, for a copy that runs the same ones. */
  def writeClaims(to: ForgetFiles, batches: Long => Boolean): Unit =
    claims.filter(claim => batches(claim.batch)).foreach { claim =>
      to.claim(claim.copy(keys = renumbered(claim.keys)))
    }

  private def renumbered(keys: Seq[ForgottenKey]): Seq[ForgottenKey] =
    keys.flatMap(key => operators(key.operator).map(as => key.copy(operator = as)))
}
