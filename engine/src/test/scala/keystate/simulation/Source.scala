package keystate.simulation

import java.io.{File, InputStream}
import java.nio.charset.StandardCharsets.UTF_8

import keystate.checkpoint.{SegmentName, SourceSegments}
import keystate.files.{AtomicOutputStream, CheckpointStorage, StoredFile}

/** A stateful source in a driver, as `SourceStream` is: it writes the rows of a batch, and its state
  * after them, before the offset log has the batch, whose entry names the file. Its state counts
  * batches, and is a part of what it gives for each: so a state that was lost, or came twice, shows.
  */
final class Source(world: World) {
  import Source._

  private val storage = world.storage.view
  private val segments = new SourceSegments(new Folder(storage))
  private var state = 0L
  private var isBegun = false

  /** What the next batch reads.
    *
    * @param last
    *   the file of the last batch in the offset log
    * @return
    *   its file and input
    */
  def next(last: Option[SegmentName]): (SegmentName, Long) = {
    if (!isBegun) begin(last)
    val number = last.fold(0L)(_.batch) + 1
    val id = if (world.has(Mutation.NamesWithoutId)) "0" else world.newId()
    val name = SegmentName(number, id)
    val input = state * Scale + world.random.nextInt(Scale)
    segments.write(name, s"${state + 1}".getBytes(UTF_8), Seq(s"$input".getBytes(UTF_8)))
    state += 1
    world.story.reach("a source writes its rows")
    (name, input)
  }

  private def begin(last: Option[SegmentName]): Unit = {
    val from =
      if (world.has(Mutation.TrustsNewestSegment)) segments.list().lastOption
      else last
    state = from.fold(0L)(name => new String(segments.read(name).header, UTF_8).toLong)
    isBegun = true
  }

  /** What a task reads of a batch. */
  def read(name: SegmentName): Long = {
    val rows = segments.read(name).chunks.map(segments.rows)
    new String(rows.head, UTF_8).toLong
  }

  /** The batch of this file is committed. */
  def commit(last: SegmentName): Unit = segments.commit(last)
}

object Source {
  private final val Scale = 1000
  private final val Name = "sources"

  /** Which batch this is the input of. */
  def batchOf(input: Long): Long = input / Scale

  /** Whether a file is one of a source. */
  def isSegment(path: String): Boolean = path.startsWith(s"$Name/")

  /** The source's folder. */
  private final class Folder(whole: CheckpointStorage) extends CheckpointStorage {
    override def open(path: String, offset: Long): InputStream = whole.open(in(path), offset)
    override def link(path: String, file: File): Boolean = whole.link(in(path), file)
    override def createAtomic(path: String, mustBeNew: Boolean): AtomicOutputStream =
      whole.createAtomic(in(path), mustBeNew)
    override def list(folder: String): Seq[StoredFile] = whole.list(Name)
    override def folders(): Seq[String] = Nil
    override def exists(path: String): Boolean = whole.exists(in(path))
    override def delete(path: String): Unit = whole.delete(in(path))
    override def describe(path: String): String = whole.describe(in(path))
    private def in(path: String) = s"$Name/$path"
  }
}
