package org.apache.spark.sql.keystate

import java.util.Arrays

import keystate.backend.{KeyedStateBackend, Layout}

/** The keys that have a state. */
private[keystate] object StoredKeys {

  /** Groups and keys as they are now: entries may come and go while these are gone through.
    *
    * @param family
    *   the backend's id of the state
    */
  def of(
      state: StateSpec,
      family: Int,
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
            if (state.kind.layout == Layout.Point) entry.key
            else entry.key.slice(4, EntryKeys.userKeyOffset(entry.key))
          if (last == null || !Arrays.equals(last, key)) keys += group -> key
          last = key
        }
        keys.result()
      } finally entries.close()
    }
}
