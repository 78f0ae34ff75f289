package org.apache.spark.sql.keystate.realtime

import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit.{MILLISECONDS, SECONDS}
import java.util.concurrent.atomic.AtomicInteger

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.types.{BinaryType, DataType, LongType}

class RowHandoverSuite extends AnyFunSuite {
  private val toUnsafe = UnsafeProjection.create(Array[DataType](LongType, BinaryType))

  private def row(i: Long, bytes: Int = 1): UnsafeRow =
    toUnsafe(InternalRow(i, new Array[Byte](bytes)))

  private def inThread(work: => Unit): Thread = {
    val thread = new Thread(() => work)
    thread.setDaemon(true)
    thread.start()
    thread
  }

  test("rows of any size come in their order, from another thread, also if that has to wait") {
    val handover = new RowHandover(2, 4096, new RowLatencies, () => ())
    val count = 20000
    inThread {
      (0 until count).foreach(i => handover.put(row(i.toLong, bytes = i % 9000)))
      handover.end(null)
    }
    var seen = 0
    while (!handover.isOver) handover.foreach { row =>
      assert(row.getLong(0) == seen)
      assert(row.getBinary(1).length == seen % 9000)
      seen += 1
    }
    assert(seen == count)
  }

  test("it says when there is something where there was nothing") {
    val ready = new AtomicInteger
    val handover = new RowHandover(2, 4096, new RowLatencies, () => { ready.incrementAndGet(); () })
    assert(!handover.hasNext && !handover.isOver)
    handover.put(row(1))
    handover.put(row(2))
    assert(ready.get == 1)
    assert(handover.waiting == 2)
    assert(handover.map(_.getLong(0)).toSeq == Seq(1, 2))
    handover.put(row(3))
    handover.end(null)
    assert(ready.get == 3)
    assert(!handover.isOver)
    assert(handover.next().getLong(0) == 3)
    assert(handover.isOver)
  }

  test("a full page makes the input wait, until it is read or nobody wants it") {
    val handover = new RowHandover(2, 4096, new RowLatencies, () => ())
    val ended = new CountDownLatch(1)
    val wanted = new AtomicInteger
    inThread {
      while (handover.put(row(wanted.get.toLong, 1000))) wanted.incrementAndGet()
      ended.countDown()
    }
    assert(!ended.await(200, MILLISECONDS))
    val first = wanted.get
    assert(first < 10)
    assert(handover.next().getLong(0) == 0)
    handover.close()
    assert(ended.await(10, SECONDS))
    assert(wanted.get <= 2 * first + 1)
  }

  test("what reading the input failed with is thrown after the rows before that") {
    val handover = new RowHandover(2, 4096, new RowLatencies, () => ())
    handover.put(row(1))
    handover.end(new IllegalStateException("no more"))
    assert(handover.next().getLong(0) == 1)
    assert(intercept[IllegalStateException](handover.hasNext).getMessage == "no more")
  }

  test("an input that fails while the task asks whether it is over has not just ended") {
    (1 to 5000).foreach { _ =>
      val handover = new RowHandover(2, 4096, new RowLatencies, () => ())
      val started = new CountDownLatch(1)
      val input = inThread {
        started.countDown()
        handover.end(new IllegalStateException("no more"))
      }
      started.await()
      val failure = intercept[IllegalStateException] {
        while (!handover.isOver) ()
        fail("it is over")
      }
      assert(failure.getMessage == "no more")
      input.join()
    }
  }
}
