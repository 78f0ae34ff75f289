package keystate.backend.rocksdb

import org.rocksdb.RocksDB

/** Native objects, closed in the reverse order of their making. */
private[keystate] final class NativeHandles extends AutoCloseable {
  private var handles = List.empty[AutoCloseable]

  def add[T <: AutoCloseable](handle: T): T = {
    handles ::= handle
    handle
  }

  override def close(): Unit = {
    val closing = handles
    handles = Nil
    closing.foreach(_.close())
  }
}

private[keystate] object NativeHandles {

  /** Runs `make` with new handles, which stay open unless it fails. */
  def openOrClose[T](make: NativeHandles => T): T = {
    loadLibrary
    val handles = new NativeHandles
    try make(handles)
    catch {
      case e: Throwable =>
        try handles.close()
        catch { case suppressed: Exception => e.addSuppressed(suppressed) }
        throw e
    }
  }

  lazy val loadLibrary: Unit =
    try RocksDB.loadLibrary()
    catch {
      case e @ (_: UnsatisfiedLinkError | _: RuntimeException) =>
        throw new keystate.checkpoint.NativeLibraryException(e)
    }
}
