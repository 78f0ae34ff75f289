package keystate.backend

import java.util.Arrays

/** Room for records of bytes, in pages: the garbage collector has no objects to follow. A record
  * begins at a multiple of 8 and never moves, so its address stays good. Nothing is given back.
  */
final class BytePages {
  import BytePages._

  private var pages = new Array[Array[Byte]](4)
  private var pageCount = 0
  // The page with room for small records, and how far it is filled.
  private var open = -1
  private var filled = 0
  private var used = 0L

  /** The number of bytes in use. */
  def bytes: Long = used

  /** Takes so many bytes, a multiple of 8, and returns their address. Throws IllegalStateException
    * when there can't be another page.
    */
  def allocate(size: Int): Int = {
    val address =
      if (size > LargestShared) addPage(size) << PageBits
      else {
        if (open < 0 || size > pages(open).length - filled) {
          // A page is a quarter of the bytes in use, so that small tables stay small.
          val share = Math.min(used / 4, PageSize.toLong).toInt & -8
          open = addPage(Math.max(size, Math.max(share, SmallestPage)))
          filled = 0
        }
        filled += size
        open << PageBits | (filled - size) >> 3
      }
    used += size
    address
  }

  /** The array that contains an address. */
  def pageOf(address: Int): Array[Byte] = pages(address >>> PageBits)

  private def addPage(size: Int): Int = {
    if (pageCount == MaxPages)
      throw new IllegalStateException("there are more entries than fit in memory pages")
    val page = new Array[Byte](size)
    if (pageCount == pages.length) pages = Arrays.copyOf(pages, 2 * pageCount)
    pages(pageCount) = page
    pageCount += 1
    pageCount - 1
  }
}

object BytePages {
  // An address has the page's number in its first bits, and in its last PageBits the place in the
  // page, in steps of 8 bytes.
  private final val PageBits = 13
  private final val PageSize = 8 << PageBits
  private final val MaxPages = 1 << (32 - PageBits)
  private final val SmallestPage = 256
  // Larger records have pages of their own.
  private final val LargestShared = PageSize / 8

  /** The offset of an address in its array. */
  def offsetOf(address: Int): Int = (address & (1 << PageBits) - 1) << 3

  /** A record's length, given how long its content is: a multiple of 8. */
  def padded(length: Long): Int = {
    val size = length + 7 & -8L
    if (size > Int.MaxValue - 8)
      throw new IllegalStateException(s"an entry of $size bytes does not fit into an array")
    size.toInt
  }
}
