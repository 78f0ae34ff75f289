package keystate

import java.nio.file.{Files, Path}
import java.sql.Timestamp

import org.json4s._
import org.json4s.jackson.JsonMethods
import org.scalatest.funsuite.AnyFunSuite

/** A case of the table: steps by micro-batch, and what fires after each. */
private final case class BehaviourCase(
    name: String,
    state: String,
    batches: Seq[JValue],
    fires: Seq[JValue]
)

/** The table of behaviour cases, which Python's functions and the test harness pass too. */
class BehaviourSuite extends AnyFunSuite with SessionFixture {
  import spark.implicits._

  private def read(file: String) = {
    // A forked test runs in the build's folder or in that of its project.
    val path = Seq(Path.of(file), Path.of("..", file)).find(Files.exists(_)).get
    JsonMethods.parse(Files.readString(path))
  }

  private val table = read("tests/contract/behaviour_cases.json")

  // Those that tests/fuzz/behaviours.py drew; the environment can name another file.
  private val drawn = read(
    sys.env.getOrElse("KEYSTATE_BEHAVIOUR_CASES", "tests/contract/random_behaviour_cases.json")
  )

  private val cases = Seq(table, drawn).flatMap(each => (each \ "cases").children).map { json =>
    def text(field: String) = (json \ field).values.toString
    val (batches, fires) = ((json \ "batches").children, (json \ "fires").children)
    BehaviourCase(text("name"), text("state"), batches, fires)
  }
  private val batchCount = cases.map(_.batches.size).max

  private def time(batch: Int) =
    new Timestamp(if (batch + 1 < batchCount) 100 * (batch + 1) else 100 * batch)

  private def steps(batch: Int): Seq[(Step, JValue)] = for {
    each <- cases
    all <- each.batches.lift(batch).toSeq
    (step, number) <- all.children.zipWithIndex
  } yield {
    val (method, arguments) = (step(0).values.toString, JsonMethods.compact(step(1)))
    (Step(each.name, 100 * batch + number, each.state, method, arguments, time(batch)), step(2))
  }

  private val expected = {
    val results = (0 until batchCount).flatMap(steps).map { case (step, result) =>
      (step.name, step.number, JsonMethods.compact(result))
    }
    val fired =
      for (each <- cases; batch <- each.fires; fire <- batch.children)
        yield (each.name, -1, JsonMethods.compact(fire))
    results ++ fired
  }

  for (backend <- Seq("hashmap", "rocksdb")) test(s"every case, on $backend") {
    withSetting("spark.keystate.backend", backend) {
      // A watermark is to be seen by the next rows, not by a batch in between.
      withSetting("spark.sql.streaming.noDataMicroBatches.enabled", "false") {
        val states = JsonMethods.compact(table \ "states")
        val emitted = new Stream[Step](backend).run(
          _.withWatermark("time", "0 seconds").keyed("name").process(new Interpreter(states))
        )((0 until batchCount).map(steps(_).map(_._1)): _*)
        assert(expected.size > 100)
        assert(emitted.sorted == expected.sorted)
      }
    }
  }
}
