package keystate.checkpoint

import java.util.UUID

import org.scalatest.funsuite.AnyFunSuite

/** Files of sources. */
class SourceSegmentsSuite extends AnyFunSuite {
  private def newId() = UUID.randomUUID.toString

  test("once a batch is committed its file stays, and nothing else of it and of those before") {
    val storage = new MemoryStorage
    val segments = new SourceSegments(storage)
    val names = for (batch <- 1L to 4L; _ <- 1 to 2) yield SegmentName(batch, newId())
    names.foreach(segments.write(_, "{}".getBytes, Nil))
    // What Spark's managers of local files and of HDFS leave of a writer that died.
    names.foreach(name => storage(s".${name.file}.${UUID.randomUUID}.tmp") = Array[Byte](1))
    storage("notes.tmp") = Array[Byte](1)
    val committed = names(4)
    segments.deleteAllUntil(committed)
    assert(segments.list().toSet == names.filter(_.batch > 3).toSet + committed)
    val rest = storage.list(".").map(_.name).filter(_.endsWith(".tmp"))
    assert(rest.size == 1 + 2 && rest.contains("notes.tmp"))
    segments.deleteAllUntil(names.head)
    assert(segments.list().size == 3)
  }
}
