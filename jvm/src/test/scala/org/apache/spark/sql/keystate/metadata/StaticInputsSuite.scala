package org.apache.spark.sql.keystate.metadata

import org.scalatest.funsuite.AnyFunSuite

import keystate.backend.{Layout, StateFamily}

class StaticInputsSuite extends AnyFunSuite {
  import StaticInputs._

  private def default(properties: (String, String)*) =
    StateFamily(0, "default", Layout.Point, Map("kind" -> "spark") ++ properties)

  private def after(family: StateFamily, version: Long, input: Option[String]) =
    family.copy(properties = StaticInputs.after(family, version, input))

  private def all(families: StateFamily*) =
    Seq(Connected, Broadcast, Initial).filter(lacks(_, families))

  test("what is read is read once, and initial state by new operators only") {
    val first = after(default(), 0, None)
    assert(first.properties == Map("kind" -> "spark", "read" -> "query"))
    assert(all(first) == Seq(Connected, Broadcast))
    val second = after(first, 1, Some(Connected))
    assert(second.properties("read") == "connected,query")
    assert(all(second) == Seq(Broadcast))
    assert(after(second, 2, None) == second)
    assert(all(after(default(), 0, Some(Initial))) == Seq(Connected, Broadcast))
  }

  test("a version of an earlier build counts as having read all, and goes on so") {
    assert(all(default()).isEmpty)
    assert(after(default(), 7, None) == default())
    assert(written(default("read" -> "query"), Some(Seq(default()))) == default())
  }

  test("an operator that is written new has read nothing, one that is edited what it had") {
    val made = default("read" -> "query")
    assert(all(written(made, None)) == Seq(Connected, Broadcast, Initial))
    val before = default("read" -> "broadcast,query")
    assert(written(made, Some(Seq(before))) == before)
    val other = StateFamily(1, "n", Layout.Point, Map("kind" -> "value"))
    assert(written(other, None) == other)
  }
}
