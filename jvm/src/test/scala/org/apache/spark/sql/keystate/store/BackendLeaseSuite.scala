package org.apache.spark.sql.keystate.store

import java.util.concurrent.{CountDownLatch, Executors, TimeUnit}

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.state.StateStore

import keystate.backend.Layout
import keystate.backend.heap.HeapStateBackend
import keystate.errors.KeystateException
import org.apache.spark.sql.keystate.KeyGroupStateStoreProvider

class BackendLeaseSuite extends AnyFunSuite with ProviderFixture {
  private def newLease() = new BackendLease(new HeapStateBackend(4), () => (), "batch 3")

  private def refuses(work: => Any): Any =
    assert(intercept[KeystateException](work).code == "KEYSTATE_TASK_ENDED")

  /** Runs `body` while another thread is at work; that one ends with it. */
  private def whileAtWork[T](lease: BackendLease)(body: CountDownLatch => T): T = {
    val (begun, end) = (new CountDownLatch(1), new CountDownLatch(1))
    val other = Executors.newSingleThreadExecutor()
    try {
      val work = other.submit[Unit] { () =>
        lease.use {
          begun.countDown()
          end.await()
        }
      }
      assert(begun.await(10, TimeUnit.SECONDS))
      val result = body(end)
      end.countDown()
      work.get(10, TimeUnit.SECONDS)
      result
    } finally {
      end.countDown()
      other.shutdown()
    }
  }

  test("work is refused once the lease has ended, with the task's name") {
    val lease = newLease()
    assert(lease.use(lease.use(lease.useInOneThread(1))) == 1)
    assert(lease.end())
    assert(lease.end())
    refuses(lease.use(1))
    refuses(lease.useInOneThread(1))
    assert(intercept[KeystateException](lease.use(1)).getMessage.contains("batch 3"))
  }

  test("it ends when what is being done is done, or after a while, and keeps an interrupt") {
    val lease = newLease()
    val stuck = newLease()
    whileAtWork(stuck) { _ =>
      Thread.currentThread.interrupt()
      assert(!stuck.end(50))
      assert(Thread.interrupted())
      assert(!stuck.end(60000), "it waits once")
    }
    whileAtWork(lease) { end =>
      new Thread(() => {
        Thread.sleep(100)
        end.countDown()
      }).start()
      Thread.currentThread.interrupt()
      assert(lease.end(10000))
      assert(Thread.interrupted())
    }
    refuses(lease.use(1))
  }

  private val one = Array[Byte](1)
  private def family(store: KeyGroupStateStore) =
    store.registerFamily("state", Layout.Point, Map("kind" -> "value")).id

  private def open(provider: KeyGroupStateStoreProvider, version: Long): KeyGroupStateStore =
    provider.getStore(version, None) match {
      case own: KeyGroupStateStore => own
      case other => throw new AssertionError(other)
    }

  for (kind <- Seq("hashmap", "rocksdb")) {
    def withCommitted(body: KeyGroupStateStoreProvider => Any): Any =
      withProvider(newProvider(hadoop = Map("spark.keystate.backend" -> kind))) { provider =>
        val store = open(provider, 0)
        store.lease.use(store.lease.backend.put(family(store), 0, one, Array[Byte](20)))
        store.commit()
        body(provider)
      }

    def value(store: KeyGroupStateStore): Int =
      store.lease.use(store.lease.backend.get(family(store), 0, one)(0).toInt)

    test(s"$kind: a late worker's changes reach no store, however the task ended") {
      withCommitted { provider =>
        Seq[StateStore => Any](_.abort(), _.commit()).foreach { end =>
          val before = open(provider, 1)
          assert(value(before) == 20)
          end(before)
          refuses(before.lease.use(before.lease.backend.put(0, 0, one, Array[Byte](30))))
          val next = open(provider, 1)
          refuses(before.lease.use(before.lease.backend.put(0, 0, one, Array[Byte](30))))
          assert(value(next) == 20)
          next.abort()
        }
      }
    }

    test(s"$kind: a load begins with what was committed, whatever was left behind") {
      withCommitted { provider =>
        val first = open(provider, 1)
        val id = family(first)
        first.abort()
        first.lease.backend.put(id, 0, one, Array[Byte](99))
        val next = open(provider, 1)
        assert(value(next) == 20)
        assert(next.lease.backend.changeCount == 0)
        next.abort()
      }
    }

    // It takes seconds; the one of the two that has something to close.
    if (kind == "rocksdb")
      test(s"$kind: a backend that a thread does not let go of is given up, and closed in the end") {
        withCommitted { provider =>
          val stuck = open(provider, 1)
          val backend = stuck.lease.backend
          val id = family(stuck)
          whileAtWork(stuck.lease) { _ =>
            val e = intercept[Throwable](stuck.commit())
            assert(e.getCause.getMessage.contains("KEYSTATE_STATE_IN_USE"))
            stuck.abort()
            val next = open(provider, 1)
            assert(next.lease.backend ne backend)
            backend.put(id, 0, one, Array[Byte](99))
            assert(value(next) == 20)
            next.lease.use(next.lease.backend.put(id, 0, one, Array[Byte](33)))
            assert(next.commit() == 2)
          }
          val last = open(provider, 2)
          assert(value(last) == 33)
          last.abort()
        }
      }
  }
}
