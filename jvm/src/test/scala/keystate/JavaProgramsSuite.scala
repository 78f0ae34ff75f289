package keystate

import java.lang.{Long => JLong}

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Encoders
import org.apache.spark.sql.streaming.Trigger

/** Programs written in Java. */
class JavaProgramsSuite extends AnyFunSuite with SessionFixture {
  private def data = {
    val pairs = Seq(1L -> 3L, 1L -> 5L, 1L -> 7L, 1L -> 4L, 1L -> 2L).map { case (key, n) =>
      (JLong.valueOf(key), JLong.valueOf(n))
    }
    spark.createDataset(pairs)(Encoders.tuple(Encoders.LONG, Encoders.LONG)).coalesce(1)
  }

  test("an AsyncFunction with state") {
    val expected = Seq("(6,1)", "(10,2)", "(14,3)", "(8,4)", "(4,5)")
    assert(JavaPrograms.asked(data).collect().toSeq.map(_.toString) == expected)
  }

  test("CountWindowAverage") {
    assert(JavaPrograms.averages(data).collect().toSeq.map(_.toString) == Seq("(1,4)", "(1,5)"))
  }

  test("CountWindowFirstEntry") {
    val expected = Seq("(1,3,1)", "(1,3,1)", "(1,3,1)", "(1,3,1)", "(1,2,1)")
    assert(JavaPrograms.firstEntries(data).collect().toSeq.map(_.toString) == expected)
  }

  test("mapWithState") {
    val expected = Seq("(1,0)", "(1,3)", "(1,8)", "(1,15)", "(1,19)")
    assert(JavaPrograms.sumsBefore(data).collect().toSeq.map(_.toString) == expected)
  }

  test("a CounterSource into a BufferingSink, over a restart") {
    JavaPrograms.BufferingSink.SENT.clear()
    def run(threshold: Int): Unit = JavaPrograms
      .count(spark, threshold, 1000L)
      .option("checkpointLocation", folder.resolve("java").toString)
      .trigger(Trigger.AvailableNow())
      .start()
      .awaitTermination()
    withSetting("spark.sql.shuffle.partitions", "1") {
      run(700)
      val sent = JavaPrograms.BufferingSink.SENT.size
      run(700)
      // In its order: there is one subtask, and what it kept back comes first.
      val all = JavaPrograms.BufferingSink.SENT.asScala.toSeq.map(_.longValue)
      assert(sent >= 700 && all.size >= sent + 700 && all == all.indices.map(_.toLong))
    }
  }
}
