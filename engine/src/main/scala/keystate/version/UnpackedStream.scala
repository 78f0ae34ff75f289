package keystate.version

import java.io.{BufferedInputStream, FilterInputStream, IOException, InputStream}

import net.jpountz.lz4.LZ4FrameInputStream

/** The content of LZ4 frames. Input that can't be decompressed is an [[java.io.IOException]]: LZ4's
  * own errors are unchecked ones of several kinds.
  */
private[keystate] object UnpackedStream {

  /** Closing it closes `packed`.
    *
    * @param onlyFirst
    *   whether it ends with the first frame
    */
  def apply(packed: InputStream, onlyFirst: Boolean = false): InputStream = new Unpacked(
    named(new LZ4FrameInputStream(new BufferedInputStream(packed), onlyFirst))
  )

  private final class Unpacked(frames: InputStream) extends FilterInputStream(frames) {
    override def read(): Int = named(super.read())
    override def read(bytes: Array[Byte], offset: Int, length: Int): Int =
      named(super.read(bytes, offset, length))
    override def skip(count: Long): Long = named(super.skip(count))
  }

  private def named[T](unpack: => T): T =
    try unpack
    catch {
      case e: RuntimeException => throw new IOException(s"not packed by LZ4: ${e.getMessage}", e)
    }
}
