package org.apache.spark.sql.keystate.spec

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.types._

class AggregateRecordSuite extends AnyFunSuite {
  private val record = AggregateRecord(
    "4.2",
    StructType.fromDDL("key STRING, `a column` DECIMAL(9,2), at TIMESTAMP"),
    Seq("total" -> "sum(value)", "odd \"one\"" -> "max_by(`a column`, at)"),
    Some("sessions by event time"),
    Some("at")
  )

  private def state(ddl: String): DataType = StructType.fromDDL(ddl)

  private val before = state("total STRUCT<sum: BIGINT>, `odd \"one\"` STRUCT<x: INT>")

  private def refusal(other: AggregateRecord, after: DataType = before) =
    record.refusal(before, other, after)

  test("a record is the same after it was JSON") {
    Seq(
      record,
      record.copy(windows = None, eventTime = None),
      record.copy(eventTime = None),
      record.copy(texts = Nil, input = new StructType)
    ).foreach(each => assert(AggregateRecord.fromJson(each.toJson) == each))
  }

  test("the JSON has nothing of a column but its name, its type and whether it may be null") {
    val metadata = new MetadataBuilder().putLong("spark.watermarkDelayMs", 5).build()
    val marked = record.input.fields.map(_.copy(metadata = metadata))
    assert(record.copy(input = StructType(marked)).toJson == record.toJson)
  }

  test("aggregates may come, go, change places and be written by another Spark") {
    val others = record.texts.reverse :+ ("n" -> "count(1)")
    val after =
      state("n STRUCT<count: BIGINT>, `odd \"one\"` STRUCT<x: INT>, total STRUCT<sum: BIGINT>")
    assert(refusal(record.copy(spark = "4.3", texts = others), after).isEmpty)
    assert(refusal(record.copy(texts = Seq("n" -> "count(1)")), state("n STRUCT<n: INT>")).isEmpty)
  }

  test("another aggregate, other buffers and other windows are refused") {
    val other = record.copy(texts = Seq("total" -> "max(value)"))
    assert(
      refusal(other).contains(
        "Column 'total' was sum(value) and is now max(value): give the new one another name."
      )
    )
    val wider = state("total STRUCT<sum: DECIMAL(20,0)>, `odd \"one\"` STRUCT<x: INT>")
    assert(
      refusal(record, wider).contains(
        "Column 'total' was STRUCT<sum: BIGINT> and is now STRUCT<sum: DECIMAL(20,0)>: give the " +
          "new one another name."
      )
    )
    // A window's bounds are its own, so only their kind counts, and that before all else.
    assert(
      refusal(other.copy(windows = Some("windows by event time")))
        .contains("Their windows were sessions by event time and are now windows by event time.")
    )
    assert(
      refusal(record.copy(windows = None))
        .contains("Their windows were sessions by event time and are now none.")
    )
  }
}
