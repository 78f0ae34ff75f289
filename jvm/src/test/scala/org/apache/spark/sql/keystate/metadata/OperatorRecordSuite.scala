package org.apache.spark.sql.keystate.metadata

import java.nio.charset.StandardCharsets.UTF_8

import org.scalatest.funsuite.AnyFunSuite

import keystate.errors.{DamagedFileException, KeystateException}
import keystate.faults.Fuzzing

class OperatorRecordSuite extends AnyFunSuite {
  private def decode(json: String): OperatorRecord =
    OperatorRecord.decode(json.getBytes(UTF_8), "here/_keystate/operator")

  test("a record comes back") {
    for (record <- Seq(OperatorRecord(77), OperatorRecord(1, Some("a \"näme\"\n"))))
      assert(decode(OperatorRecord.encode(record)) == record)
  }

  for (format <- Seq(0, 2)) test(s"a record of format $format is said to be one") {
    val e = intercept[KeystateException](decode(s"""{"format":$format,"maxParallelism":128}"""))
    assert(e.code == "KEYSTATE_UNSUPPORTED_FORMAT" && e.getMessage.contains(s"format $format"))
  }

  for (
    json <- Seq(
      "",
      "{",
      "[]",
      "null",
      """{"format":1}""",
      """{"format":1,"maxParallelism":0}""",
      """{"maxParallelism":128}""",
      """{"format":1,"maxParallelism":128}""",
      """{"format":1,"maxParallelism":128,"crc32c":1}""",
      """{"format":1,"maxParallelism":99999999999}"""
    )
  ) test(s"no record: $json") {
    val e = intercept[DamagedFileException](decode(json))
    assert(e.code == "KEYSTATE_CORRUPT_FILE" && e.file == "here/_keystate/operator")
  }

  test("a flipped bit is noticed, or does no harm") {
    val good = OperatorRecord.encode(OperatorRecord(128)).getBytes(UTF_8)
    for (at <- good.indices; bit <- 0 to 7) {
      val flipped = good.clone
      flipped(at) = (flipped(at) ^ 1 << bit).toByte
      try assert(OperatorRecord.decode(flipped, "f") == OperatorRecord(128), s"$at, $bit")
      catch { case _: KeystateException => }
    }
  }

  test("damaged records") {
    val good = OperatorRecord.encode(OperatorRecord(128)).getBytes(UTF_8)
    Fuzzing.run("operator records", 8L << 20) { random =>
      val damaged =
        if (random.nextBoolean()) Fuzzing.damage(random, good)
        else Fuzzing.damageJson(random, good)
      try Some(OperatorRecord.decode(damaged, "f"))
      catch { case _: KeystateException => None }
    }
  }
}
