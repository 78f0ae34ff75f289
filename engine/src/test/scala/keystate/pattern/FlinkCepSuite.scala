package keystate.pattern

import scala.io.{Codec, Source}
import scala.jdk.CollectionConverters._
import scala.util.Using

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.scalatest.funsuite.AnyFunSuite

/** What Flink's CEP 2.3 found of drawn patterns, as engine/src/test/flink/CepRecorder.java recorded
  * it.
  */
class FlinkCepSuite extends AnyFunSuite {
  private val json = new ObjectMapper

  private def cases: Seq[JsonNode] =
    Using.resource(getClass.getResourceAsStream("flink-cep.jsonl")) { in =>
      Source.fromInputStream(in)(Codec.UTF8).getLines().map(json.readTree).toVector
    }

  private def number(node: JsonNode) = Option(node).filterNot(_.isNull).map(_.asInt)
  private def skips(node: JsonNode) = Skips.all.find(_.name == node.asText).get

  private def part(node: JsonNode): Part = {
    val times = Times(
      node.get("least").asInt,
      number(node.get("most")),
      node.get("optional").asBoolean,
      skips(node.get("between"))
    )
    val (name, where, until) =
      (node.get("name").asText, number(node.get("where")), number(node.get("until")))
    node.get("kind").asText match {
      case "rows" =>
        Part.Rows(name, where, skips(node.get("skips")), times, node.get("greedy").asBoolean, until)
      case "group" =>
        Part.Group(
          node.get("parts").asScala.map(part).toSeq,
          skips(node.get("skips")),
          times,
          until
        )
      case kind => Part.Absent(name, where.get, kind == "at_once")
    }
  }

  /** Whether all after an absent part may be left out. Flink takes no notice of the absent part then;
    * here there is a match once its time is over.
    */
  private def endsAbsent(parts: Seq[Part]) =
    parts.reverseIterator.dropWhile(mayBeLeftOut).nextOption().exists(_.isInstanceOf[Part.Absent])

  private def mayBeLeftOut(part: Part): Boolean = part match {
    case rows: Part.Rows => rows.times.optional
    case group: Part.Group => group.times.optional || group.parts.forall(mayBeLeftOut)
    case _: Part.Absent => false
  }

  private def found(pattern: Pattern, table: TruthTable): Set[String] = {
    val automaton = PatternCompiler.compile(pattern)
    val runs = new AllRuns[table.History](automaton, AfterMatch.NoSkip, Nil)
    (0 until table.size).foreach(i => runs.row(table.row(i.toLong)))
    runs
      .take()
      .filter(_.isMatch)
      .map { decided =>
        val rows = decided.run.history.asInstanceOf[List[(Int, Long)]]
        rows.map { case (letter, row) => s"$row${automaton.letters(letter)}" }.sorted.mkString(" ")
      }
      .toSet
  }

  test("all matches of Flink are found, and no others") {
    var matches = 0
    val different = for {
      recorded <- cases
      parts = recorded.get("parts").asScala.map(part).toSeq
      if !endsAbsent(parts)
      table = TruthTable(
        recorded.get("times").asScala.map(_.asLong).toIndexedSeq,
        recorded.get("holds").asScala.map(_.asScala.map(_.asInt).toSet).toIndexedSeq
      )
      theirs = recorded.get("matches").asScala.map(_.asText).toSet
      ours = found(Pattern(parts, number(recorded.get("within")).map(_.toLong)), table)
      _ = matches += theirs.size
      // A row that ends a run, by what must be absent, completes a match in Flink.
      absent = parts.collect { case Part.Absent(_, condition, _, _) => condition }
      more = (theirs -- ours).filterNot { one =>
        val last = one.split(' ').map(_.takeWhile(_.isDigit).toInt).max
        absent.exists(table.holds(last))
      }
      if more.nonEmpty || (ours -- theirs).nonEmpty
    } yield s"$recorded\n  ours ${ours.mkString(" | ")}"
    assert(different.isEmpty)
    assert(matches > 400)
  }
}
