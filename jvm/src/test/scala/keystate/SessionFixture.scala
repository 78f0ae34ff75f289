package keystate

import java.nio.file.Files

import scala.collection.mutable.ArrayBuffer

import org.apache.commons.io.FileUtils
import org.scalatest.{BeforeAndAfterAll, Suite}

import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.streaming.StreamingQueryProgress
import org.apache.spark.sql.{Dataset, Encoder, SparkSession}

import org.apache.spark.sql.keystate.store.LoadedStores

/** A session as a user makes it, and streams fed by hand. */
trait SessionFixture extends BeforeAndAfterAll { self: Suite =>
  protected lazy val spark: SparkSession = SparkSession
    .builder()
    .master("local[2,2]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.extensions", "org.apache.spark.sql.keystate.KeystateExtension")
    .config(
      "spark.sql.streaming.stateStore.providerClass",
      "org.apache.spark.sql.keystate.KeyGroupStateStoreProvider"
    )
    .config(
      "spark.sql.streaming.streamingQueryListeners",
      "org.apache.spark.sql.keystate.RescaleOnRestart"
    )
    // Spark stops its stores under a lock that their maintenance waits for, for up to ten minutes.
    .config("spark.sql.streaming.stateStore.maintenanceShutdownTimeout", "1s")
    .config("spark.sql.streaming.stateStore.maintenanceForceShutdownTimeout", "1s")
    .getOrCreate()

  protected val folder = Files.createTempDirectory("keystate")

  override def afterAll(): Unit =
    try {
      assert(spark.streams.active.isEmpty)
      spark.stop()
      LoadedStores.unload()
    } finally {
      FileUtils.deleteDirectory(folder.toFile)
      super.afterAll()
    }

  protected def withSetting[R](key: String, value: String)(body: => R): R = {
    val before = spark.conf.getOption(key)
    spark.conf.set(key, value)
    try body
    finally before.fold(spark.conf.unset(key))(spark.conf.set(key, _))
  }

  /** A stream whose input and checkpoint outlive its queries. */
  protected final class Stream[T: Encoder](name: String) {
    private val source = MemoryStream[T](implicitly[Encoder[T]], spark)
    val checkpoint: String = folder.resolve(name).toString

    /** What the last query told of its micro-batches. */
    var progress: Seq[StreamingQueryProgress] = Nil

    def toDS: Dataset[T] = source.toDS()

    /** Adds a batch for a query to take in. */
    def feed(batch: Seq[T]): Unit = {
      source.addData(batch)
      ()
    }

    /** Runs a query over the batches, one after the other, and stops it. */
    def run[O](
        build: Dataset[T] => Dataset[O],
        mode: String = "append"
    )(batches: Seq[T]*): Seq[O] = {
      val emitted = ArrayBuffer.empty[O]
      val query = build(toDS).writeStream
        .outputMode(mode)
        .option("checkpointLocation", checkpoint)
        .foreachBatch { (batch: Dataset[O], _: Long) =>
          emitted ++= batch.collect()
          ()
        }
        .start()
      try
        batches.foreach { batch =>
          feed(batch)
          query.processAllAvailable()
        }
      finally {
        // Without the reports of triggers that found nothing to do: these tell of no operators.
        progress = query.recentProgress.filter(_.durationMs.containsKey("addBatch")).toSeq
        query.stop()
      }
      emitted.toSeq
    }
  }
}
