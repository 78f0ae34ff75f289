package keystate.files

import java.util.zip.CRC32C

/** CRC32C, the checksum of everything in the file format. As JSON has it, it is the unsigned number
  * of these 32 bits.
  */
object Crc32c {

  /** The checksum of all bytes. */
  def of(bytes: Array[Byte]): Int = of(bytes, 0, bytes.length)

  /** The checksum of `length` bytes from `start` on. */
  def of(bytes: Array[Byte], start: Int, length: Int): Int = {
    val crc = new CRC32C
    crc.update(bytes, start, length)
    crc.getValue.toInt
  }
}
