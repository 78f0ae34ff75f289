package org.apache.spark.sql.keystate.state

import java.nio.ByteBuffer
import java.util.Arrays

import keystate.TimeDomain
import keystate.backend.StateFamily
import org.apache.spark.sql.keystate.spec.SystemColumnFamilies

/** The entry keys of timers in their ordered family. They begin with
  * `[domain: 1 byte][time: int64 big-endian, sign flipped]`, so due timers come first in their
  * domain.
  */
private[keystate] sealed abstract class TimerKeys {
  import TimerKeys._

  def entry(
      domain: TimeDomain,
      time: Long,
      key: Array[Byte],
      namespace: Array[Byte] = Timer.NoNamespace
  ): Array[Byte]

  /** The key in an entry key. */
  def keyOf(entry: Array[Byte]): Array[Byte]

  /** The namespace in an entry key; empty if there is none. */
  def namespaceOf(entry: Array[Byte]): Array[Byte]

  protected def begun(domain: TimeDomain, time: Long, more: Int): ByteBuffer =
    ByteBuffer.allocate(HeaderLength + more).put(number(domain)).putLong(time ^ Long.MinValue)
}

private[keystate] object TimerKeys {
  private final val HeaderLength = 9

  /** Timers of a key: the key follows. */
  object Plain extends TimerKeys {
    override def entry(
        domain: TimeDomain,
        time: Long,
        key: Array[Byte],
        namespace: Array[Byte]
    ): Array[Byte] = begun(domain, time, key.length).put(key).array()

    override def keyOf(entry: Array[Byte]): Array[Byte] =
      Arrays.copyOfRange(entry, HeaderLength, entry.length)

    override def namespaceOf(entry: Array[Byte]): Array[Byte] = Timer.NoNamespace
  }

  /** Timers of a key and a namespace: `[n: int32][key: n bytes][namespace]` follows. */
  object Namespaced extends TimerKeys {
    private final val KeyStart = HeaderLength + 4

    override def entry(
        domain: TimeDomain,
        time: Long,
        key: Array[Byte],
        namespace: Array[Byte]
    ): Array[Byte] = begun(domain, time, 4 + key.length + namespace.length)
      .putInt(key.length)
      .put(key)
      .put(namespace)
      .array()

    override def keyOf(entry: Array[Byte]): Array[Byte] =
      Arrays.copyOfRange(entry, KeyStart, afterKey(entry))

    override def namespaceOf(entry: Array[Byte]): Array[Byte] =
      Arrays.copyOfRange(entry, afterKey(entry), entry.length)

    private def afterKey(entry: Array[Byte]) =
      KeyStart + ByteBuffer.wrap(entry).getInt(HeaderLength)
  }

  /** Those of a family; None if it has no timers. */
  def of(family: StateFamily): Option[TimerKeys] = of(family.name)

  def of(family: String): Option[TimerKeys] = family match {
    case SystemColumnFamilies.TimersName => Some(Plain)
    case SystemColumnFamilies.WindowTimersName => Some(Namespaced)
    case _ => None
  }

  /** The number of a domain, in entry keys and in messages. */
  def number(domain: TimeDomain): Byte = domain match {
    case TimeDomain.EVENT_TIME => 0
    case TimeDomain.PROCESSING_TIME => 1
  }

  /** The domain of a number. */
  def domain(number: Byte): TimeDomain = number match {
    case 0 => TimeDomain.EVENT_TIME
    case 1 => TimeDomain.PROCESSING_TIME
    case other => throw new IllegalArgumentException(s"there is no timer domain $other")
  }

  /** The domain in an entry key. */
  def domainOf(entry: Array[Byte]): TimeDomain = domain(entry.head)

  /** The time in an entry key. */
  def timeOf(entry: Array[Byte]): Long = ByteBuffer.wrap(entry).getLong(1) ^ Long.MinValue

  /** The bounds of the entry keys of a domain's timers. */
  def first(domain: TimeDomain): Array[Byte] = Array(number(domain))
  def end(domain: TimeDomain): Array[Byte] = Array((number(domain) + 1).toByte)

  /** The first entry key of a domain's timers after a time. */
  def after(domain: TimeDomain, time: Long): Array[Byte] =
    if (time == Long.MaxValue) end(domain)
    else Plain.entry(domain, time + 1, Array.emptyByteArray)

  /** The stored value of a timer; the rest is in its entry key. */
  val Present: Array[Byte] = Array[Byte](0)
}
