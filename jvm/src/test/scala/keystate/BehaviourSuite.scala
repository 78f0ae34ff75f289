package keystate

import org.json4s.jackson.JsonMethods
import org.scalatest.funsuite.AnyFunSuite

/** The table of behaviour cases, in queries. */
class BehaviourSuite extends AnyFunSuite with SessionFixture {
  import BehaviourTable.{batchCount, steps, table}
  import spark.implicits._

  private val expected = (0 until batchCount).flatMap(BehaviourTable.expected)

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
