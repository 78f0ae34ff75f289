package keystate.simulation

import java.nio.charset.StandardCharsets.UTF_8

import keystate.checkpoint.{Rescaling, SegmentName, SourceSegments}
import keystate.errors.{CheckpointException, KeystateErrors}
import keystate.files.{AtomicOutputStream, CheckpointStorage, StoreLocation}

/** An entry of the offset log.
  *
  * @param input
  *   tells the batch's rows
  * @param segment
  *   the source's file with these rows; None without a source
  */
final case class Offsets(input: Long, partitions: Int, segment: Option[SegmentName] = None)

/** An entry of the commit log.
  *
  * @param ids
  *   by partition; None with checkpoint format v1
  */
final case class Commit(ids: Option[Seq[String]])

/** Spark's logs, and the numbers of partitions that they and the state's files tell, as Keystate's
  * `QueryRescaling` and `CommittedPartitions` look for them.
  */
final class QueryLogs(storage: CheckpointStorage) {
  import QueryLogs._

  def offsets(batch: Long): Option[Offsets] = read(offsetsPath(batch)).map { text =>
    text match {
      case Entry(input, partitions, file) =>
        Offsets(input.toLong, partitions.toInt, SourceSegments.parse(file))
      case other => throw damaged(offsetsPath(batch), other)
    }
  }

  def commit(batch: Long): Option[Commit] = read(commitPath(batch)).map {
    case s"v2 $ids;" => Commit(Some(ids.split(',').toSeq))
    case "v1;" => Commit(None)
    case other => throw damaged(commitPath(batch), other)
  }

  private def damaged(path: String, text: String) =
    KeystateErrors.damagedLog(path, new IllegalArgumentException(s"'$text'"))

  def latestOffsets: Option[Long] = latest("offsets")
  def latestCommit: Option[Long] = latest("commits")

  /** The ids of the version after a batch, in a format. */
  def ids(batch: Long, partitions: Int): Seq[Option[String]] =
    commit(batch).flatMap(_.ids).fold(Seq.fill(partitions)(Option.empty[String]))(_.map(Some(_)))

  /** How many partitions the state after a committed batch has. */
  def partitions(batch: Long): Int = {
    val recorded = offsets(batch).get.partitions
    commit(batch).get.ids.map(_.size).getOrElse {
      if (counts(batch + 1) == Seq(recorded)) recorded
      else {
        val found = complete(batch + 1)
        if (found.contains(recorded)) recorded else found.maxOption.getOrElse(recorded)
      }
    }
  }

  /** In how many partitions a version is there as a whole. For format v1. */
  def complete(version: Long): Seq[Int] = counts(version).filter { n =>
    readable(false)(Rescaling.isComplete(storage, 0, StoreLocation.DefaultStore, version, n))
  }

  private def counts(version: Long): Seq[Int] = readable(Seq.empty[Int]) {
    Rescaling.partitionCounts(storage, 0, StoreLocation.DefaultStore, version)
  }

  private def readable[T](otherwise: T)(read: => T): T =
    try read
    catch { case _: CheckpointException => otherwise }

  private def latest(folder: String): Option[Long] =
    storage.list(folder).flatMap(_.name.toLongOption).maxOption

  private def read(path: String): Option[String] =
    Option.when(storage.exists(path)) {
      val in = storage.open(path)
      new String(in.readAllBytes(), UTF_8)
    }
}

object QueryLogs {
  private val Entry = "(\\d+) (\\d+) (.*);".r

  def offsetsPath(batch: Long): String = s"offsets/$batch"
  def commitPath(batch: Long): String = s"commits/$batch"

  def write(out: AtomicOutputStream, entry: Offsets): Unit =
    write(out, s"${entry.input} ${entry.partitions} ${entry.segment.fold("")(_.file)};")

  def write(out: AtomicOutputStream, entry: Commit): Unit =
    write(out, entry.ids.fold("v1;")(ids => s"v2 ${ids.mkString(",")};"))

  private def write(out: AtomicOutputStream, text: String): Unit = {
    try out.write(text.getBytes(UTF_8))
    catch {
      case e: Throwable =>
        out.cancel()
        throw e
    }
    out.close()
  }
}
