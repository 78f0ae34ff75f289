package keystate.files

import java.io.OutputStream
import java.util.zip.CRC32C

/** Passes bytes on, and counts their length and CRC32C so far. Closing it does nothing: the owner
  * of `out` decides whether the file appears.
  */
private[keystate] final class Summed(out: OutputStream) extends OutputStream {
  private val crc = new CRC32C
  private var count = 0L

  def length: Long = count
  def crc32c: Int = crc.getValue.toInt

  override def write(byte: Int): Unit = write(Array(byte.toByte), 0, 1)
  override def write(bytes: Array[Byte], offset: Int, length: Int): Unit = {
    out.write(bytes, offset, length)
    crc.update(bytes, offset, length)
    count += length
  }
  override def close(): Unit = ()
}
