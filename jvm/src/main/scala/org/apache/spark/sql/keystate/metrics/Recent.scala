package org.apache.spark.sql.keystate.metrics

import java.util.{Collections, LinkedHashMap, Map => JMap, Set => JSet}

/** Maps and sets that keep the latest entries. A key that is put again keeps its place: remove it
  * first if it should count as new. Thread-safe, by synchronizing on themselves.
  */
private[keystate] object Recent {

  /** @param most
    *   how many entries are kept
    */
  def map[K, V](most: Int): JMap[K, V] =
    Collections.synchronizedMap(new LinkedHashMap[K, V] {
      override def removeEldestEntry(eldest: JMap.Entry[K, V]): Boolean = size > most
    })

  /** @param most
    *   how many elements are kept
    */
  def set[K](most: Int): JSet[K] = Collections.newSetFromMap(map[K, java.lang.Boolean](most))
}
