package keystate.files

import java.util.zip.CRC32C

/** The checksum of all that the format has. */
object Crc32c {
  def of(bytes: Array[Byte]): Int = of(bytes, 0, bytes.length)

  def of(bytes: Array[Byte], start: Int, length: Int): Int = {
    val crc = new CRC32C
    crc.update(bytes, start, length)
    crc.getValue.toInt
  }
}
