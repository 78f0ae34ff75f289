package keystate.keygroup

/** The inverse of murmur3 of one 32-bit integer (Austin Appleby, public domain), as Spark's
  * `hash()` computes it. Every step is a bijection on 32-bit integers, so the inverse undoes them
  * from the last to the first.
  */
private[keystate] object Murmur3 {

  /** The seed of Spark's `hash()`. */
  val Seed = 42

  private val C1 = 0xcc9e2d51
  private val C2 = 0x1b873593
  private val M5 = 0xe6546b64
  private val F1 = 0x85ebca6b
  private val F2 = 0xc2b2ae35

  /** The integer that has this hash with this seed. */
  def inverseHashInt(hash: Int, seed: Int): Int = {
    val h1 = unfinish(hash) ^ 4
    val k1 = seed ^ Integer.rotateRight((h1 - M5) * inverseOdd(5), 13)
    Integer.rotateRight(k1 * inverseOdd(C2), 15) * inverseOdd(C1)
  }

  private def unfinish(hash: Int): Int = {
    var h = hash ^ (hash >>> 16)
    h *= inverseOdd(F2)
    h ^= (h >>> 13) ^ (h >>> 26)
    h *= inverseOdd(F1)
    h ^ (h >>> 16)
  }

  /** The multiplicative inverse of an odd number modulo 2^32, by Newton's iteration. It starts with
    * x itself, which is right in 3 bits because x * x = 1 (mod 8); each step doubles the number of
    * right bits.
    */
  private def inverseOdd(x: Int): Int = {
    var inverse = x
    var i = 0
    while (i < 4) {
      inverse *= 2 - x * inverse
      i += 1
    }
    inverse
  }
}
