package keystate.backend

import java.util.Arrays

/** The keys that have a state. */
object StoredKeys {

  /** Each key that has an entry, with its group, as they are at the call: entries may come and go
    * while the result is gone through. An entry whose time to live ended counts while it is stored.
    *
    * @param family
    *   the backend's id of the state
    * @param layout
    *   the state's: point, or grouped
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
