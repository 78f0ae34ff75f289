package org.apache.spark.sql.keystate.operator

import org.scalatest.funsuite.AnyFunSuite

import keystate.backend.{Layout, StateFamily}
import keystate.errors.KeystateException

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

  test("a version that does not say what was read is damaged") {
    assert(intercept[KeystateException](all(default())).code == "KEYSTATE_CORRUPT_FILE")
    assert(intercept[KeystateException](after(default(), 7, None)).code == "KEYSTATE_CORRUPT_FILE")
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
