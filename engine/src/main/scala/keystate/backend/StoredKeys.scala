package keystate.backend

import java.util.Arrays

/** The keys that have a state. */
object StoredKeys {

  /** Each key that has an entry, with its group, at the time of the call: entries may be added and
    * removed while the result is iterated.
    *
    * @param family
    *   the backend's id of the state
    * @param layout
    *   the state's layout: point, or grouped
    * @param isExpired
    *   whether an entry with this value has expired; such entries do not count
    */
  def of(
      family: Int,
      layout: Layout,
      backend: StateEntries,
      maxParallelism: Int,
      isExpired: Array[Byte] => Boolean
  ): Seq[(Int, Array[Byte])] =
    (0 until maxParallelism).flatMap { group =>
      val entries = backend.scan(family, group, null, null)
      try {
        val keys = Vector.newBuilder[(Int, Array[Byte])]
        var last: Array[Byte] = null
        entries.filterNot(entry => isExpired(entry.value)).foreach { entry =>
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
