package keystate.backend.heap

import java.lang.invoke.MethodHandles
import java.nio.ByteOrder
import java.util.Arrays

import keystate.backend.BytePages.{offsetOf, padded}
import keystate.backend.{BytePages, ChangeSink, Keys}

/** Entries as bytes in pages: an entry's key and value are next to each other, and the garbage
  * collector has no objects to follow.
  *
  * {{{
  * record   [int32 mark][int32 key length][int32 value length][key][value], padded to 8 bytes
  * }}}
  *
  * Numbers are little-endian; files never contain records. A record never moves and its space is
  * not reused, so an address stays valid. To free space, the owner copies the records that it still
  * needs into new `Records` and drops the old ones. The owner decides the meaning of the mark. A
  * removed record keeps its value's length, as the complement.
  */
private[heap] final class Records {
  import Records._

  private val pages = new BytePages

  /** The bytes of all records, including garbage. */
  def bytes: Long = pages.bytes

  /** Adds a record; returns its address. Throws IllegalStateException when it does not fit. */
  def add(mark: Int, key: Array[Byte], value: Array[Byte]): Int =
    add(mark, key, 0, key.length, value, 0, value.length)

  /** Adds a record of parts of arrays; returns its address, or throws as above. */
  def add(
      mark: Int,
      key: Array[Byte],
      keyStart: Int,
      keyLength: Int,
      value: Array[Byte],
      valueStart: Int,
      valueLength: Int
  ): Int = {
    val address = pages.allocate(sizeOf(keyLength, valueLength))
    val page = pageOf(address)
    val at = offsetOf(address)
    ints.set(page, at, mark)
    ints.set(page, at + 4, keyLength)
    System.arraycopy(key, keyStart, page, at + Header, keyLength)
    setValue(page, at, value, valueStart, valueLength)
    address
  }

  /** Adds a copy of a record of `from`, mark included; returns its address. */
  def add(from: Records, fromAddress: Int): Int = {
    val size = from.size(fromAddress)
    val address = pages.allocate(size)
    System.arraycopy(
      from.pageOf(fromAddress),
      offsetOf(fromAddress),
      pageOf(address),
      offsetOf(address),
      size
    )
    address
  }

  def mark(address: Int): Int = int(pageOf(address), offsetOf(address))

  def setMark(address: Int, mark: Int): Unit = ints.set(pageOf(address), offsetOf(address), mark)

  /** Whether the record's key equals this part of an array. */
  def hasKey(address: Int, key: Array[Byte], keyStart: Int, keyLength: Int): Boolean = {
    val page = pageOf(address)
    val start = offsetOf(address) + Header
    int(page, start - 8) == keyLength &&
    Arrays.equals(page, start, start + keyLength, key, keyStart, keyStart + keyLength)
  }

  def key(address: Int): Array[Byte] = {
    val page = pageOf(address)
    val start = offsetOf(address) + Header
    Arrays.copyOfRange(page, start, start + int(page, start - 8))
  }

  /** The value, copied; null if the record is removed. */
  def value(address: Int): Array[Byte] = {
    val page = pageOf(address)
    val start = offsetOf(address) + Header
    val length = int(page, start - 4)
    if (length < 0) null
    else {
      val value = start + int(page, start - 8)
      Arrays.copyOfRange(page, value, value + length)
    }
  }

  /** Hands a record out as a change of its entry. */
  def writeTo(sink: ChangeSink, family: Int, group: Int, address: Int): Unit = {
    val page = pageOf(address)
    val start = offsetOf(address) + Header
    val keyLength = int(page, start - 8)
    val length = int(page, start - 4)
    val value = if (length < 0) null else page
    sink.add(family, group, page, start, keyLength, value, start + keyLength, length)
  }

  /** Replaces the value in place, also that of a removed record. Returns false, and does nothing,
    * if the value needs a record of another size.
    */
  def replace(address: Int, value: Array[Byte]): Boolean = {
    val page = pageOf(address)
    val at = offsetOf(address)
    val fits = size(address) == sizeOf(int(page, at + 4), value.length)
    if (fits) setValue(page, at, value, 0, value.length)
    fits
  }

  def isRemoved(address: Int): Boolean = int(pageOf(address), offsetOf(address) + 8) < 0

  /** Marks a record as removed; it must not be removed already. */
  def remove(address: Int): Unit = {
    val page = pageOf(address)
    val length = offsetOf(address) + 8
    ints.set(page, length, ~int(page, length))
  }

  /** The bytes of the record. */
  def size(address: Int): Int = {
    val page = pageOf(address)
    val at = offsetOf(address)
    val length = int(page, at + 8)
    sizeOf(int(page, at + 4), if (length < 0) ~length else length)
  }

  /** The keys of these records, read in place without copies. */
  def keysAt(addresses: Array[Int]): Keys = new Keys {
    override def count: Int = addresses.length
    override def array(i: Int): Array[Byte] = pageOf(addresses(i))
    override def start(i: Int): Int = offsetOf(addresses(i)) + Header
    override def end(i: Int): Int = start(i) + int(array(i), start(i) - 8)
  }

  private def setValue(
      page: Array[Byte],
      at: Int,
      value: Array[Byte],
      valueStart: Int,
      valueLength: Int
  ): Unit = {
    ints.set(page, at + 8, valueLength)
    System.arraycopy(value, valueStart, page, at + Header + int(page, at + 4), valueLength)
  }

  private def pageOf(address: Int): Array[Byte] = pages.pageOf(address)
}

private[heap] object Records {
  private final val Header = 12

  private val ints =
    MethodHandles.byteArrayViewVarHandle(classOf[Array[Int]], ByteOrder.LITTLE_ENDIAN)

  private def int(page: Array[Byte], at: Int): Int = {
    val value: Int = ints.get(page, at)
    value
  }

  private def sizeOf(keyLength: Int, valueLength: Int): Int =
    padded(Header + keyLength.toLong + valueLength)
}
