package keystate.checkpoint

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import keystate.Repository

class OperatorStateSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  private def split(name: String, elements: String*) = OperatorList(name, union = false, elements)
  private def union(name: String, elements: String*) = OperatorList(name, union = true, elements)

  private def elements(states: Seq[OperatorState], name: String): Seq[Seq[String]] =
    states.map(_.lists.filter(_.name == name).flatMap(_.elements))

  private def dealt(old: Seq[Seq[String]], parallelism: Int): Seq[Seq[String]] = {
    val states = old.map(part => OperatorState(1, Seq(split("a", part: _*))))
    elements(OperatorState.redistribute(states, parallelism), "a")
  }

  test("the elements of a list are dealt out in their order, as evenly as possible") {
    assert(dealt(Seq(Seq("1", "2", "3", "4")), 3) == Seq(Seq("1", "2"), Seq("3"), Seq("4")))
    assert(dealt(Seq(Seq("1"), Seq("2", "3"), Nil), 1) == Seq(Seq("1", "2", "3")))
    assert(
      dealt(Seq(Seq("1", "2"), Seq("3"), Nil, Seq("4", "5")), 3) ==
        Seq(Seq("1", "2"), Seq("3", "4"), Seq("5"))
    )
    assert(
      dealt(Seq(Seq("1", "2", "3"), Seq("4")), 5) ==
        Seq(Seq("1"), Seq("2"), Seq("3"), Seq("4"), Nil)
    )
    assert(dealt(Seq(Nil, Nil), 3) == Seq(Nil, Nil, Nil))
  }

  test("where one list's remainder ends, the next one's begins") {
    val old = Seq(OperatorState(1, Seq(split("a", "1"), split("b", "2"), split("c", "3", "4"))))
    val states = OperatorState.redistribute(old, 3)
    assert(elements(states, "a") == Seq(Seq("1"), Nil, Nil))
    assert(elements(states, "b") == Seq(Nil, Seq("2"), Nil))
    assert(elements(states, "c") == Seq(Seq("4"), Nil, Seq("3")))
  }

  test("union lists are read from all subtasks, and none is doubled by a rescale") {
    val old = Seq(OperatorState(1, Seq(union("u", "1"))), OperatorState(2, Seq(union("u", "2"))))
    val states = OperatorState.redistribute(OperatorState.redistribute(old, 4), 3)
    assert(states.map(_.batch).toSet == Set(2))
    assert(OperatorState.collectAll(states, Set("u")) == Map("u" -> Seq("1", "2")))
  }

  test("a subtask is restored with what all have of the lists that are asked for, and its own") {
    val states = Seq("1", "2").map(i => OperatorState(1, Seq(union("u", i), union("v", i))))
    val restored = states.map(own =>
      RestoredOperatorState(own, OperatorState.collectAll(states, Set("u", "new")))
    )
    assert(restored.map(_.elements("u")) == Seq.fill(2)(Seq("1", "2")))
    assert(restored.map(_.elements("v")) == Seq(Seq("1"), Seq("2")))
    assert(restored.map(_.elements("new")) == Seq(Nil, Nil))
    assert(restored.map(_.own) == states)
  }

  test("nothing is lost or doubled, and subtasks differ by one element at most") {
    val lists = Gen.listOf(Gen.listOf(Gen.alphaNumStr))
    forAll(lists, Gen.choose(1, 9)) { (old, parallelism) =>
      val parts = dealt(old, parallelism)
      assert(parts.flatten == old.flatten)
      assert(parts.size == parallelism)
      assert(parts.map(_.size).max - parts.map(_.size).min <= 1)
    }
  }

  test("the table that the Python code is tested with too") {
    val file = Repository.root.resolve("tests/contract/redistribution_cases.json")
    val table = new ObjectMapper().readTree(file.toFile)
    val unions = table.get("unions").elements.asScala.map(_.textValue).toSet
    val cases = table.get("cases").elements.asScala.toSeq
    cases.foreach { each =>
      def subtasks(when: String): Seq[Map[String, Seq[String]]] =
        each.get(when).elements.asScala.toSeq.map { subtask =>
          subtask.properties.asScala.map { list =>
            list.getKey -> list.getValue.elements.asScala.map(_.asText).toSeq
          }.toMap
        }
      val before = each.get("before").elements.asScala.toSeq.map { subtask =>
        val lists = subtask.properties.asScala.toSeq.map { list =>
          val name = list.getKey
          val elements = list.getValue.elements.asScala.map(_.asText).toSeq
          OperatorList(name, unions(name), elements)
        }
        OperatorState(1, lists)
      }
      val after = OperatorState.redistribute(before, subtasks("after").size)
      val ofAll = OperatorState.collectAll(after, unions)
      val found = after.map { own =>
        own.lists.map(l => l.name -> RestoredOperatorState(own, ofAll).elements(l.name)).toMap
      }
      assert(found == subtasks("after"))
    }
    assert(
      cases.map(c => (c.get("before").size, c.get("after").size)).toSet ==
        Set((1, 3), (3, 1), (4, 3), (2, 5))
    )
  }

  test("JSON") {
    val state = OperatorState(7, Seq(split("a", "x", ""), union("\"ü\"", "y"), split("none")))
    assert(OperatorState.fromJson(OperatorState.toJson(state)) == state)
  }
}
