package keystate.backend

import java.util.Arrays

/** The keys that have a state. */
object StoredKeys {

  /** Groups and keys as they are now: entries may come and go while these are gone through.
    *
    * @param family
    *   the backend's id of the state
    */
  def of(
      family: Int,
      layout: Layout,
      backend: KeyedStateBackend,
      maxParallelism: Int
  ): Seq[(Int, Array[Byte])] =
    (0 until maxParallelism).flatMap { group =>
      val entries = backend.scan(family, group, null, null)
      try {
        val keys = Vector.newBuilder[(Int, Array[Byte])]
        var last: Array[Byte] = null
        entries.foreach { entry =>
          val key =
            if (layout == Layout.Point) entry.key
            else GroupedKey.keyOf(entry.key)
          if (last == null || !Arrays.equals(last, key)) keys += group -> key
          last = key
        }
        keys.result()
      } finally entries.close()
    }
}
