package keystate

import java.nio.file.{Files, Path}
import java.sql.Timestamp

import org.json4s._
import org.json4s.jackson.JsonMethods

/** A case of the table: steps by micro-batch, and what fires after each. */
private final case class BehaviourCase(
    name: String,
    state: String,
    batches: Seq[JValue],
    fires: Seq[JValue]
)

/** The table of behaviour cases, which Python's functions and both harnesses pass too. */
object BehaviourTable {
  private def read(file: String) = {
    // A forked test runs in the build's folder or in that of its project.
    val path = Seq(Path.of(file), Path.of("..", file)).find(Files.exists(_)).get
    JsonMethods.parse(Files.readString(path))
  }

  val table: JValue = read("tests/contract/behaviour_cases.json")

  // Those that tests/fuzz/behaviours.py drew; the environment can name another file.
  private val drawn = read(
    sys.env.getOrElse("KEYSTATE_BEHAVIOUR_CASES", "tests/contract/random_behaviour_cases.json")
  )

  private val cases = Seq(table, drawn).flatMap(each => (each \ "cases").children).map { json =>
    def text(field: String) = (json \ field).values.toString
    val (batches, fires) = ((json \ "batches").children, (json \ "fires").children)
    BehaviourCase(text("name"), text("state"), batches, fires)
  }
  val batchCount: Int = cases.map(_.batches.size).max

  private def time(batch: Int) =
    new Timestamp(if (batch + 1 < batchCount) 100 * (batch + 1) else 100 * batch)

  def steps(batch: Int): Seq[(Step, JValue)] = for {
    each <- cases
    all <- each.batches.lift(batch).toSeq
    (step, number) <- all.children.zipWithIndex
  } yield {
    val (method, arguments) = (step(0).values.toString, JsonMethods.compact(step(1)))
    (Step(each.name, 100 * batch + number, each.state, method, arguments, time(batch)), step(2))
  }

  /** What a micro-batch emits: of its steps, and of the timers that fire in it. */
  def expected(batch: Int): Seq[(String, Int, String)] = {
    val results = steps(batch).map { case (step, result) =>
      (step.name, step.number, JsonMethods.compact(result))
    }
    val fired =
      for (each <- cases; fires <- each.fires.lift(batch).toSeq; fire <- fires.children)
        yield (each.name, -1, JsonMethods.compact(fire))
    results ++ fired
  }
}
