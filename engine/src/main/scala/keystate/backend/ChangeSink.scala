package keystate.backend

import java.util.Arrays

/** Takes changed entries, one after the other in the order of `[family][group][key]`, each key
  * once. It may throw, to have no more.
  */
abstract class ChangeSink {

  /** Takes one entry. Key and value are parts of arrays; the sink reads them before it returns and
    * does not keep the arrays. A null value marks a removed entry; start and length of the value
    * then have no meaning.
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

  /** Takes one entry, whose value is null if it was removed. */
  final def add(family: Int, group: Int, key: Array[Byte], value: Array[Byte]): Unit =
    add(family, group, key, 0, key.length, value, 0, if (value == null) 0 else value.length)

  final def add(change: Change): Unit = add(change.family, change.group, change.key, change.value)

  final def addAll(changes: IterableOnce[Change]): Unit = changes.iterator.foreach(add(_))
}

object ChangeSink {

  /** Makes a change of each entry: with a copy of its key and its value. */
  def ofChanges(take: Change => Unit): ChangeSink = new ChangeSink {
    override def add(
        family: Int,
        group: Int,
        key: Array[Byte],
        keyStart: Int,
        keyLength: Int,
        value: Array[Byte],
        valueStart: Int,
        valueLength: Int
    ): Unit = take(
      Change(
        family,
        group,
        Arrays.copyOfRange(key, keyStart, keyStart + keyLength),
        if (value == null) null else Arrays.copyOfRange(value, valueStart, valueStart + valueLength)
      )
    )
  }
}
