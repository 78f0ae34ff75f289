package keystate.files

import java.io.{File, InputStream}
import java.util.concurrent.atomic.LongAdder

/** The number of requests to a checkpoint's storage.
  *
  * @param puts
  *   files written
  * @param gets
  *   files opened, or looked for
  * @param lists
  *   folders listed
  */
final case class RequestCounts(puts: Long, gets: Long, lists: Long) {
  def -(other: RequestCounts): RequestCounts =
    RequestCounts(puts - other.puts, gets - other.gets, lists - other.lists)
}

object RequestCounts {
  val Zero: RequestCounts = RequestCounts(0, 0, 0)
}

/** Counts the requests to a storage. */
private[keystate] final class CountedStorage(storage: CheckpointStorage) extends CheckpointStorage {
  private val puts = new LongAdder
  private val gets = new LongAdder
  private val lists = new LongAdder

  /** Since the beginning. */
  def counts: RequestCounts = RequestCounts(puts.sum, gets.sum, lists.sum)

  override def open(path: String, offset: Long): InputStream =
    counting(gets)(storage.open(path, offset))
  override def open(path: String, offset: Long, length: Long): InputStream =
    counting(gets)(storage.open(path, offset, length))
  override def link(path: String, file: File): Boolean = storage.link(path, file)
  override def createAtomic(path: String, mustBeNew: Boolean): AtomicOutputStream =
    counting(puts)(storage.createAtomic(path, mustBeNew))
  override def list(folder: String): Seq[StoredFile] = counting(lists)(storage.list(folder))
  override def folders(): Seq[String] = counting(lists)(storage.folders())
  override def exists(path: String): Boolean = counting(gets)(storage.exists(path))
  override def delete(path: String): Unit = storage.delete(path)
  override def deleteAll(paths: Seq[String]): Unit = storage.deleteAll(paths)
  override def describe(path: String): String = storage.describe(path)

  private def counting[T](count: LongAdder)(request: => T): T = {
    count.increment()
    request
  }
}
