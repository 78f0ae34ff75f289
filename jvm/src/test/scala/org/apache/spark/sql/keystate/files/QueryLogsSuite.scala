package org.apache.spark.sql.keystate.files

import java.io.File
import java.nio.file.Files

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.{Assertion, BeforeAndAfterAll}

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.{
  OffsetSeq, OffsetSeqLog, OffsetSeqMetadata
}
import org.apache.spark.sql.execution.streaming.runtime.SerializedOffset
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.util.Utils

import org.apache.spark.sql.keystate.shim.LogEntries

/** Spark's logs, written without a session. */
abstract class LogsSuite extends AnyFunSuite with BeforeAndAfterAll {
  protected val metadata: OffsetSeqMetadata =
    OffsetSeqMetadata(7, 8, Map(SQLConf.SHUFFLE_PARTITIONS.key -> "4"))
  protected val offset: SerializedOffset = SerializedOffset("""{"logOffset":3}""")
  private var session: SparkSession = _

  override protected def beforeAll(): Unit =
    session =
      SparkSession.builder().master("local[1]").config("spark.ui.enabled", "false").getOrCreate()

  override protected def afterAll(): Unit = session.stop()

  /** Writes an entry as Spark does and as Keystate does, and compares the files. */
  protected def writtenAlike(entry: LogEntries.Offsets): Assertion = {
    val folder = Utils.createTempDir(namePrefix = "keystate-logs")
    try {
      new OffsetSeqLog(session, s"$folder/offsets").add(3, entry)
      val conf = new Configuration
      val read = QueryLogs.offsets(conf, new Path(s"$folder")).get(3)
      assert(read.flatMap(OffsetEntry.partitions(_)).contains(4))
      QueryLogs.offsets(conf, new Path(s"$folder/copy")).replace(3, read.get)
      def written(name: String) = Files.readString(new File(folder, name).toPath)
      assert(written("copy/offsets/3") == written("offsets/3"))
    } finally Utils.deleteRecursively(folder)
  }
}

class QueryLogsSuite extends LogsSuite {
  test("an entry of the offset log is written as Spark writes it") {
    writtenAlike(OffsetSeq(Seq(Some(offset), None), Some(metadata)))
    writtenAlike(OffsetSeq(Nil, Some(metadata)))
  }
}
