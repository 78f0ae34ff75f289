package keystate.backend

import java.nio.ByteBuffer

import scala.collection.mutable
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import keystate.backend.heap.HeapStateBackend
import keystate.keygroup.KeyGroupRange

class TtlEntriesSuite extends AnyFunSuite {
  private val Groups = 4
  private val families =
    Seq(StateFamily(0, "p", Layout.Point), StateFamily(1, "g", Layout.Grouped))

  private def newBackend(): HeapStateBackend = {
    val backend = new HeapStateBackend(Groups)
    families.foreach(backend.register)
    backend
  }

  private def key(family: Int, number: Int): Array[Byte] =
    if (family == 0) Array(number.toByte)
    else ByteBuffer.allocate(6).putInt(1).put(1.toByte).put(number.toByte).array

  private def value(number: Int): Array[Byte] = StateValue.encode(Array(number.toByte))

  private def numberOf(value: Array[Byte]): Option[Int] =
    Option(value).map(v => v(StateValue.rowOffset(v)).toInt)

  private def at(backend: HeapStateBackend, ttl: TimeToLive, now: Long) =
    new TtlEntries(backend, new Expiry(ttl, now))

  test("entries agree with a model, whatever finds them expired") {
    (0 until 20).foreach { _ =>
      val seed = Random.nextLong()
      val random = new Random(seed)
      val ttl = TimeToLive(millis = 50, eventTime = random.nextBoolean(), updatedOnRead = true)
      val backend = newBackend()
      val sweep = new TtlSweep
      // Value and timestamp.
      val model = mutable.Map.empty[(Int, Int, Int), (Int, Long)]
      var now = 1000L
      (0 until 40).foreach { _ =>
        now += random.nextInt(40)
        model.filterInPlace { case (_, (_, timestamp)) => timestamp + 50 > now }
        val entries = at(backend, ttl, now)
        (0 until 30).foreach { _ =>
          val (family, group, number) =
            (random.nextInt(2), random.nextInt(Groups), random.nextInt(9))
          val id = (family, group, number)
          val clue = s"seed $seed, $id at $now"
          val bytes = key(family, number)
          random.nextInt(6) match {
            case 0 | 1 =>
              entries.put(family, group, bytes, value(number + now.toInt % 7))
              val old = model.get(id).fold(0L)(_._2)
              val timestamp = if (ttl.eventTime) Math.max(old, now) else now
              model(id) = (number + now.toInt % 7, timestamp)
            case 2 =>
              entries.remove(family, group, bytes)
              model.remove(id)
            case 3 =>
              val time = now + random.nextInt(30)
              entries.touch(family, group, bytes, time)
              model.updateWith(id)(_.map { case (v, t) => (v, Math.max(t, time)) })
            case 4 =>
              assert(numberOf(entries.get(family, group, bytes)) == model.get(id).map(_._1), clue)
            case 5 =>
              val found = entries.scan(family, group, null, null).map(e => numberOf(e.value).get)
              val expected = model.collect { case ((`family`, `group`, _), (v, _)) => v }
              assert(found.toSeq.sorted == expected.toSeq.sorted, clue)
          }
        }
        families.foreach(f => sweep.run(entries, f.id, KeyGroupRange(0, Groups - 1), 5))
      }
      // A sweep of everything leaves what lives, and nothing else.
      val entries = at(backend, ttl, now)
      families.foreach(f => new TtlSweep().run(entries, f.id, KeyGroupRange(0, Groups - 1), 1000))
      families.foreach { family =>
        assert(backend.count(family.id) == model.keys.count(_._1 == family.id), s"seed $seed")
      }
    }
  }

  test("sweeping some at a time goes round all entries") {
    val backend = newBackend()
    val ttl = TimeToLive(millis = 10)
    (0 until 100).foreach(i => at(backend, ttl, 0).put(0, i % Groups, key(0, i), value(1)))
    (100 until 120).foreach(i => at(backend, ttl, 9).put(0, i % Groups, key(0, i), value(1)))
    val sweep = new TtlSweep
    val owned = KeyGroupRange(1, 2)
    (0 until 12).foreach(_ => sweep.run(at(backend, ttl, 15), 0, owned, 3))
    // 10 of the 20 late ones, and 50 of the others, are in the two groups.
    assert(backend.count(0) == 120 - 50)
  }

  test("an entry without a timestamp counts as written when it is come across") {
    val backend = newBackend()
    val ttl = TimeToLive(millis = 10)
    backend.put(0, 0, key(0, 1), value(7))
    assert(numberOf(at(backend, ttl, 100).get(0, 0, key(0, 1))).contains(7))
    assert(numberOf(at(backend, ttl, 109).get(0, 0, key(0, 1))).contains(7))
    assert(at(backend, ttl, 110).get(0, 0, key(0, 1)) == null)
    assert(backend.count(0) == 0)
  }

  test("by event time an entry lives from the first watermark on that comes across it") {
    val backend = newBackend()
    val ttl = TimeToLive(millis = 10, eventTime = true)
    Seq(1, 2, 3).foreach(i => at(backend, ttl, 0).put(0, 0, key(0, i), value(7)))
    at(backend, ttl, 0).touch(0, 0, key(0, 1), Long.MinValue)
    at(backend, ttl, 0).touch(0, 0, key(0, 2), 105)
    at(backend, ttl, 0).put(0, 0, key(0, 2), value(8))
    assert(at(backend, ttl, 0).scan(0, 0, null, null).size == 3)
    assert(at(backend, ttl, 0).isOf(Long.MinValue, backend.get(0, 0, key(0, 3))))
    assert(numberOf(at(backend, ttl, 100).get(0, 0, key(0, 1))).contains(7))
    assert(at(backend, ttl, 110).get(0, 0, key(0, 1)) == null)
    assert(numberOf(at(backend, ttl, 114).get(0, 0, key(0, 2))).contains(8))
    assert(at(backend, ttl, 115).get(0, 0, key(0, 2)) == null)
    assert(numberOf(at(backend, ttl, 200).get(0, 0, key(0, 3))).contains(7))
  }

  test("an expired entry may be returned, once") {
    val backend = newBackend()
    val ttl = TimeToLive(millis = 10, returnExpired = true)
    at(backend, ttl, 0).put(1, 0, key(1, 1), value(7))
    assert(
      at(backend, ttl, 10).scan(1, 0, null, null).map(_.value).map(numberOf).toSeq == Seq(Some(7))
    )
    assert(at(backend, ttl, 10).scan(1, 0, null, null).isEmpty)
  }

  test("a time to live that would end after all time never ends") {
    val stored = StateValue.withTimestamp(value(1), 1000)
    Seq(Long.MaxValue, Long.MaxValue - 500).foreach { millis =>
      assert(!new Expiry(TimeToLive(millis), 2000).isExpired(stored))
    }
    assert(new Expiry(TimeToLive(1), Long.MaxValue).isExpired(stored))
  }

  test("the clock does not go back") {
    val ttl = TimeToLive(millis = 10)
    val before = Expiry(ttl, 500, Map.empty)
    assert(Expiry(ttl, 400, before.properties).now == 500)
    assert(Expiry(ttl, 600, before.properties).now == 600)
    val byEventTime = ttl.copy(eventTime = true)
    assert(Expiry(byEventTime, 400, Expiry(byEventTime, 500, Map.empty).properties).now == 500)
  }

  test("the other clock does not count: a watermark may be years behind") {
    val ttl = TimeToLive(millis = 10)
    val byEventTime = ttl.copy(eventTime = true)
    assert(Expiry(byEventTime, 400, Expiry(ttl, 500, Map.empty).properties).now == 400)
    assert(Expiry(ttl, 400, Expiry(byEventTime, 500, Map.empty).properties).now == 400)
  }

  test("a timestamp replaces the one that is there and leaves the rest") {
    val row = Array[Byte](1, 2, 3)
    val plain = StateValue.encode(row, 0, 3, schemaId = 300)
    val stamped = StateValue.withTimestamp(StateValue.withTimestamp(plain, 5), 77)
    assert(StateValue.timestamp(stamped) == 77)
    assert(StateValue.schemaId(stamped) == 300)
    assert(stamped.drop(StateValue.rowOffset(stamped)).toSeq == row.toSeq)
    val nothing = StateValue.withTimestamp(Array(StateValue.NullFlag), 9)
    assert((nothing(0) & StateValue.NullFlag) != 0 && StateValue.timestamp(nothing) == 9)
  }
}
