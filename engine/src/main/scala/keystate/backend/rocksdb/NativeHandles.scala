package keystate.backend.rocksdb

import org.rocksdb.RocksDB
import org.slf4j.LoggerFactory

import keystate.errors.NativeLibraryException

/** Native objects. They are closed in the reverse of the order in which they were added. */
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

  // Tried only once: after a failure RocksDB can mistake a second try for one that waits for
  // another thread.
  private lazy val failure: Option[NativeLibraryException] =
    try {
      RocksDB.loadLibrary()
      None
    } catch {
      case e @ (_: LinkageError | _: RuntimeException) =>
        val failure = new NativeLibraryException(e)
        LoggerFactory.getLogger(classOf[NativeHandles]).warn(failure.getMessage)
        Some(failure)
    }

  def loadLibrary(): Unit = failure.foreach(e => throw new NativeLibraryException(e.getCause))
}
