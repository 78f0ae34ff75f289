package keystate

import java.sql.Timestamp
import java.time.Duration

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Row
import org.apache.spark.sql.functions.{avg, count, first, last}

import keystate.errors.KeystateException

final case class Event(key: String, kind: String, amount: Long, time: Timestamp)

/** Patterns in Scala. */
class PatternsSuite extends AnyFunSuite with SessionFixture {
  import spark.implicits._

  private def events(all: (String, Long)*) = all.zipWithIndex.map { case ((kind, amount), i) =>
    Event("a", kind, amount, new Timestamp(1000L * i))
  }

  private val login = Pattern.begin("login").where($"kind" === "l")
  private val failures = login.followedBy("f").where($"kind" === "f")

  test("matches by columns and by a function of the key, and the elements of matches") {
    val data = events("l" -> 0L, "f" -> 1L, "x" -> 7L, "f" -> 3L, "s" -> 2L, "s" -> 9L).toDS()
    val pattern = failures
      .times(2)
      .notFollowedBy("x")
      .where($"kind" === "y")
      .followedBy("s")
      .where($"kind" === "s")
      .where($"amount" > avg($"f.amount"))
      .within(Duration.ofMinutes(5))
    val results = Seq(count($"f.*").as("n"), last($"s.amount").as("s"))
    val found = data.keyed("key").pattern(pattern, $"time").select(results.head, results.tail: _*)
    assert(found.columns.toSeq == Seq("key", "match_time", "n", "s"))
    assert(found.drop("match_time").collect().toSeq == Seq(Row("a", 2L, 9L)))
    val rows = data.keyBy(_.key).pattern(pattern, $"time", $"amount".desc).allRows()
    val told = rows.select("kind", "match_number", "match_part").collect().toSeq
    assert(
      told == Seq(Row("l", 1L, "login"), Row("f", 1L, "f"), Row("f", 1L, "f"), Row("s", 1L, "s"))
    )
  }

  test("partial matches whose time is over go to a side output") {
    val tag = OutputTag[(String, Timestamp, Long)]("timeouts")
    val found = events("l" -> 5L, "x" -> 1L)
      .toDS()
      .keyed("key")
      .pattern(failures.within(Duration.ofSeconds(2)), $"time")
      .timeoutOutput(tag)
      .select(first($"login.amount").as("amount"))
    assert(found.isEmpty)
    val rows = found.withSideOutputs(tag).select("timeouts.*").collect().toSeq
    assert(rows == Seq(Row("a", new Timestamp(2000), 5L)))
  }

  test("groups, loops and skips") {
    val data = events("l" -> 0L, "f" -> 1L, "l" -> 2L, "f" -> 3L, "s" -> 4L).toDS()
    val pattern = Pattern
      .begin(failures, AfterMatchSkipStrategy.skipPastLastEvent)
      .timesOrMore(2)
      .next("s")
    val found = data.keyed("key").pattern(pattern, $"time").select(count($"login.*"))
    assert(found.collect().map(_.getLong(2)).toSeq == Seq(2L))
  }

  test("what makes no sense is refused") {
    def refusal(pattern: => Pattern) = intercept[KeystateException] {
      events().toDS().keyed("key").pattern(pattern, $"time").select(count($"login.*"))
    }.getMessage
    assert(refusal(failures.greedy()).contains("Part 'f' of the pattern is greedy, but comes once"))
    assert(refusal(failures.times(2).oneOrMore()).contains("'f' of the pattern has two numbers"))
    assert(refusal(failures.notNext("x")).contains("'x' of the pattern is absent, but has no"))
    assert(refusal(Pattern.begin(failures).greedy()).contains("A group of a pattern"))
    assert(
      refusal(failures.next("amount")).contains("'amount' of the pattern is named as a column")
    )
  }
}
