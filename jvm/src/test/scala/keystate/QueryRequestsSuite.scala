package keystate

import java.nio.file.Files

import scala.util.matching.Regex

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.{StreamingQuery, Trigger}

import keystate.config.Settings
import keystate.faults.{ObjectFileSystem, Requests}

/** How many requests a query makes to the object store that its checkpoint is in. */
class QueryRequestsSuite extends AnyFunSuite with SessionFixture {
  import spark.implicits._

  private val partitions = 2
  private val InPartition: Regex = raw"/state/0/\d+/".r
  private val purging = "async-log-purge"
  private var files = 0

  private def feed(): Unit = {
    val input = Files.createDirectories(folder.resolve("input"))
    files += 1
    Files.writeString(input.resolve(s"$files.json"), """{"_1": 1, "_2": 2}""")
    ()
  }

  /** The requests of a piece of work: those in the partitions' folders, and the query's others. But
    * for the purge of logs, which has a thread of its own.
    */
  private def requests(body: => Any): (Seq[String], Seq[String]) = Requests
    .of(body)
    .filter(request => request.path.contains("/checkpoint/") && request.thread != purging)
    .map(request => s"${request.verb} ${request.path.split("/checkpoint")(1)}")
    .partition(InPartition.findFirstIn(_).isDefined)

  private def start(trigger: Trigger): StreamingQuery = spark.readStream
    .schema("_1 long, _2 long")
    .json(folder.resolve("input").toString)
    .as[(Long, Long)]
    .keyBy(_._1)
    .flatMap(new CountWindowAverage)
    .writeStream
    .format("noop")
    .option("checkpointLocation", s"${ObjectFileSystem.Scheme}:${folder.resolve("checkpoint")}")
    .trigger(trigger)
    .start()

  /** How often another driver may have been looked for at the beginning of something. */
  private def looksSince(nanos: Long): Int =
    1 + ((System.nanoTime - nanos) / 200000000L).toInt

  /** How often the requests to forget keys may have been looked for. */
  private def forgetLooksSince(nanos: Long): Int =
    1 + ((System.nanoTime - nanos) / 5000000000L).toInt

  private def withSettings(settings: (String, String)*)(body: => Any): Any =
    settings.foldLeft(() => body: Any) { case (body, (key, value)) =>
      () => withSetting(key, value)(body())
    }()

  test("each file is asked for once when a query starts, and none before it is written") {
    val manager = SQLConf.STREAMING_CHECKPOINT_FILE_MANAGER_CLASS.parent.key
    val settings = ObjectFileSystem.settings().toSeq :+ manager -> Settings.FileManagerClass
    withSettings(settings: _*) {
      feed()
      val started = System.nanoTime
      val query = start(Trigger.ProcessingTime(0))
      try {
        query.processAllAvailable()
        feed()
        val began = System.nanoTime
        val (tasks, others) = requests(query.processAllAvailable())
        assert(tasks.map(_.takeWhile(_ != ' ')) == Seq.fill(partitions)("PUT"))
        // The entries of the logs of the source, the offsets and the commits. A look for another
        // driver before the first of them and before the last; if the batch is slow, more.
        val (looks, rest) = others.partition(_ == "HEAD /_keystate/owners/2")
        val (forgets, written) = rest.partition(_ == "LIST /_keystate/forget")
        assert(forgets.size < forgetLooksSince(started))
        assert(written.sorted == Seq("/commits/1", "/offsets/1", "/sources/0/1").map("PUT " + _))
        assert(2 to 2 + looksSince(began) contains looks.size, looks)
      } finally query.stop()
      feed()
      val began = System.nanoTime
      val (_, others) = requests(start(Trigger.AvailableNow()).awaitTermination())
      val (owners, rest) = others.partition(_.contains("/_keystate/owners"))
      val (forgets, asked) = rest.partition(_ == "LIST /_keystate/forget")
      assert(1 to forgetLooksSince(began) contains forgets.size, forgets)
      // The end of the first query is written in the background.
      val own = owners.filter(_ != "PUT /_keystate/owners/1.ended")
      val (looks, taken) = own.partition(_ == "HEAD /_keystate/owners/3")
      // Spark's log of offsets is read before the checkpoint is taken too, and the record of the
      // operators again when they are compared with the plan.
      val twice = asked.diff(asked.distinct).toSet
      val may = Set("LIST /offsets", "GET /offsets/1", "GET /_keystate/operators")
      assert(twice.subsetOf(may), twice)
      assert(asked.size <= 26, asked)
      assert(!asked.exists(_.contains("/_keystate/forget")), asked)
      assert(taken.size <= 5, taken)
      assert(2 to 2 + looksSince(began) contains looks.size, looks)
    }
  }
}
