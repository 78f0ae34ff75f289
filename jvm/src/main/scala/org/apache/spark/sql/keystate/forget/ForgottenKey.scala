package org.apache.spark.sql.keystate.forget

import java.util.Arrays

/** A key of an operator that is to be forgotten.
  *
  * @param hash
  *   murmur3 of the key, which determines its group
  * @param bytes
  *   the stored form of the key
  */
private[keystate] final case class ForgottenKey(operator: Long, hash: Int, bytes: Array[Byte]) {
  def isSame(other: ForgottenKey): Boolean =
    operator == other.operator && Arrays.equals(bytes, other.bytes)
}

/** The keys that a micro-batch forgets before it takes its rows. It is written before the batch
  * runs, and never changes, so that a replay does the same.
  *
  * @param requests
  *   the ids of the requests for it
  */
private[keystate] final case class ForgetClaim(
    batch: Long,
    requests: Seq[String],
    keys: Seq[ForgottenKey]
) {

  /** The version of the state that has these keys no more. */
  def version: Long = batch + 1
}
