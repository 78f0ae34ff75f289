package org.apache.spark.sql.keystate.realtime

import org.scalatest.funsuite.AnyFunSuite

class RowLatenciesSuite extends AnyFunSuite {
  private final val Milli = 1000000L

  test("rows wait until their message is sent, and are with the worker until it is answered") {
    val latencies = new RowLatencies
    latencies.read(0)
    latencies.read(10 * Milli)
    latencies.sent(20 * Milli) // two rows
    (1 to 1000).foreach(_ => latencies.read(30 * Milli)) // while they are with the worker
    latencies.sent(31 * Milli)
    latencies.answered(60 * Milli)
    latencies.sent(61 * Milli) // one without rows
    latencies.answered(131 * Milli)
    latencies.answered(500 * Milli)
    val values = latencies.values.all
    assert(values("keystateQueueingUs.max") == 20000)
    assert(values("keystateWorkerUs.max") == 100000)
    assert(values("keystateLatencyUs.max") == 101000)
    assert(values("keystateQueueingUs.p50") >= 1000 && values("keystateQueueingUs.p50") <= 1125)
    assert(values("keystateLatencyUs.p99") >= 101000)
    assert(latencies.values.latencies.values.forall(_.count == 1002))
  }

  test("rows that are processed in this JVM wait until that begins") {
    val latencies = new RowLatencies
    latencies.read(0)
    latencies.processed(began = 20 * Milli, ended = 50 * Milli)
    latencies.read(40 * Milli)
    latencies.processed(began = 50 * Milli, ended = 60 * Milli)
    val values = latencies.values.all
    assert(values("keystateQueueingUs.max") == 20000)
    assert(values("keystateWorkerUs.max") == 30000)
    assert(values("keystateLatencyUs.max") == 50000)
    assert(values("keystateLatencyUs.p50") >= 20000 && values("keystateLatencyUs.p50") <= 22500)
    assert(latencies.values.latencies.values.forall(_.count == 2))
  }
}
