package keystate.checkpoint

import java.io.{File, FileInputStream, IOException, InputStream, OutputStream}

import keystate.backend.ChangeSink
import keystate.errors.LocalStorageException
import keystate.files.Summed
import keystate.keygroup.KeyGroupRange
import keystate.version.{PlainRun, RunIndex, Section, UnpackedStream}

/** A version's part of a run, on this machine, which can be read repeatedly. Closing it deletes its
  * file.
  */
private[checkpoint] sealed trait LocalRun extends AutoCloseable {

  /** Whether reading only some groups costs about as much as their entries alone. */
  def isSplit: Boolean

  /** Hands over the entries of these families and groups, as far as they are taken from the run. */
  def moveTo(sink: ChangeSink, families: Set[Int], groups: KeyGroupRange): Unit
}

/** A run in memory. */
private[checkpoint] final class LocalInlineRun(content: Array[Byte], taken: KeyGroupRange)
    extends LocalRun {
  override def isSplit: Boolean = true

  override def moveTo(sink: ChangeSink, families: Set[Int], groups: KeyGroupRange): Unit =
    if (groups.intersects(taken))
      PlainRun.read(content, families, groups.intersection(taken)).moveTo(sink)

  override def close(): Unit = ()
}

/** A run in a local file of whole sections, whose checksums were right when the file was fetched.
  * They are checked again before a section is read, which may be much later.
  *
  * @param fetched
  *   the positions of the sections, if they are known; else they are in the index at the file's
  *   end, if there is one
  * @param damaged
  *   makes the error for a file that differs from what was written
  */
private[checkpoint] final class LocalRunFile(
    file: File,
    fetched: Vector[Section],
    taken: KeyGroupRange,
    damaged: (String, Exception) => Exception
) extends LocalRun {
  import LocalRunFile._

  private val sections =
    if (fetched.nonEmpty) fetched else RunFiles.sections(file.length, open)

  override def isSplit: Boolean = sections.nonEmpty || file.length <= Small

  override def moveTo(sink: ChangeSink, families: Set[Int], groups: KeyGroupRange): Unit =
    if (groups.intersects(taken)) {
      val own = groups.intersection(taken)
      if (sections.isEmpty) moveAll(UnpackedStream(open(0)), sink, families, own)
      else
        RunIndex.choose(sections, families, own).foreach { section =>
          check(section)
          val frame = UnpackedStream(open(section.offset), onlyFirst = true)
          moveAll(frame, sink, families, own)
        }
    }

  override def close(): Unit =
    file.delete(): Unit

  private def moveAll(
      entries: InputStream,
      sink: ChangeSink,
      families: Set[Int],
      groups: KeyGroupRange
  ): Unit = {
    val cursor = PlainRun.read(entries, families, groups, e => damaged(e.getMessage, e))
    try cursor.moveTo(sink)
    finally cursor.close()
  }

  private def check(section: Section): Unit = {
    val in = open(section.offset)
    val found = new Summed(OutputStream.nullOutputStream)
    try RunFiles.copy(in, found, section.length)
    catch { case e: IOException => throw new LocalStorageException(file, e) }
    finally in.close()
    if (found.length != section.length || found.crc32c != section.crc32c)
      throw damaged("the checksum of a part of its local copy is wrong", null)
  }

  private def open(offset: Long): InputStream =
    try {
      val in = new FileInputStream(file)
      try in.skipNBytes(offset)
      catch {
        case e: IOException =>
          in.close()
          throw e
      }
      in
    } catch { case e: IOException => throw new LocalStorageException(file, e) }
}

private[checkpoint] object LocalRunFile {

  /** A file of no more bytes may be read whole for each piece. */
  private final val Small = 256L * 1024
}
