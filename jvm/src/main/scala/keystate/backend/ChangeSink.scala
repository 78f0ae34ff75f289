package keystate.backend

/** Takes changed entries, one after the other in the order of `[family][group][key]`. */
abstract class ChangeSink {

  /** Keys and values are parts of arrays, which are read before this returns. A null value says that
    * the entry was removed.
    */
  def add(
      family: Int,
      group: Int,
      key: Array[Byte],
      keyStart: Int,
      keyLength: Int,
      value: Array[Byte],
      valueStart: Int,
      valueLength: Int
  ): Unit

  final def add(family: Int, group: Int, key: Array[Byte], value: Array[Byte]): Unit =
    add(family, group, key, 0, key.length, value, 0, if (value == null) 0 else value.length)

  final def add(change: Change): Unit = add(change.family, change.group, change.key, change.value)

  final def addAll(changes: IterableOnce[Change]): Unit = changes.iterator.foreach(add(_))
}
