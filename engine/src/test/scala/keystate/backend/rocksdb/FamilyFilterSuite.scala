package keystate.backend.rocksdb

import java.io.IOException

import scala.collection.mutable
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import keystate.backend.HeapBudget

class FamilyFilterSuite extends AnyFunSuite {

  /** A family of which the filter is asked as a backend asks it. */
  private class Family(bytes: Long = 1L << 20) {
    val share: HeapBudget.Share = new HeapBudget(bytes).share()
    val stored = mutable.Map.empty[Int, mutable.Set[Long]].withDefault(_ => mutable.Set.empty)
    // The groups that were read, in this order.
    val read = mutable.Buffer.empty[Int]
    val filter = new FamilyFilter(
      share,
      (group, take) => {
        read += group
        stored(group).foreach(key => take(bytesOf(key)))
      }
    )
    var spared = 0

    def lookUp(group: Int, key: Long): Boolean = {
      val found = stored(group)(key)
      if (filter.excludes(group, bytesOf(key))) {
        assert(!found, s"$key of group $group is stored")
        spared += 1
      } else if (!found) filter.missed(group, stored(group).size.toLong)
      found
    }

    def put(group: Int, keys: Iterable[Long]): Unit = {
      val added = keys.filter(!lookUp(group, _)).toSet
      val live = stored(group).size + added.size.toLong
      added.foreach(key => filter.add(group, bytesOf(key), live))
      if (!stored.contains(group)) stored(group) = mutable.Set.empty
      stored(group) ++= added
    }

    /** Looks up so many keys that were never stored. */
    def miss(group: Int, times: Int): Unit =
      (1 to times).foreach(n => lookUp(group, Long.MinValue + n))
  }

  private def bytesOf(key: Long): Array[Byte] = BigInt(key).toByteArray

  test("a group is read when as many lookups were in vain as it has keys") {
    val family = new Family
    family.stored(3) = mutable.Set.from(1L to 1000L)
    family.miss(3, 999)
    (1L to 1000L).foreach(family.lookUp(3, _))
    assert(!family.filter.knows(3) && family.share.takenBytes == 0)
    family.miss(3, 1)
    assert(family.filter.knows(3) && family.share.takenBytes >= 1000)
    assert((1L to 1000L).forall(family.lookUp(3, _)))
    family.miss(3, 1000)
    assert(family.spared > 900 && family.read.size == 1)
  }

  test("the lookups of all groups pay for one after the other") {
    val family = new Family
    (0 until 10).foreach(group => family.stored(group) = mutable.Set.from(1L to 1000L))
    val known = (1 to 20).map { _ =>
      (0 until 10).foreach(family.miss(_, 50))
      family.read.size
    }
    assert(known.take(3) == Seq(0, 1, 1) && known(9) < 7)
    // Each pays less, for fewer of them are in vain.
    assert(known.last > 5 && known == known.sorted)
  }

  test("a group with few keys takes nothing") {
    val family = new Family
    (0 until 1000).foreach { group =>
      family.put(group, 1L to 60L)
      family.miss(group, 1000)
    }
    assert(family.share.takenBytes == 0 && family.read.isEmpty)
  }

  test("what is stored is never excluded, and groups are read seldom, while they grow") {
    val family = new Family
    val random = new Random(1)
    (1 to 200).foreach { _ =>
      (0 until 3).foreach(family.put(_, Seq.fill(500)(random.nextLong() >>> 1)))
    }
    val keys = family.stored.values.map(_.size).sum
    assert(keys > 290000 && family.spared > 0.85 * keys)
    (0 until 3).foreach(g => assert(family.stored(g).forall(family.lookUp(g, _))))
    assert(family.share.takenBytes < 2.1 * keys)
    assert(family.read.groupBy(identity).values.forall(_.size <= 4))
  }

  test("keys that come and go do not fill it") {
    val family = new Family
    (0 until 300).foreach { round =>
      family.put(0, (1000L * round until 1000L * (round + 1)))
      family.stored(0) --= (1000L * (round - 1) until 1000L * round)
    }
    assert(family.share.takenBytes < 10000)
    // Each time it is made anew, as many keys were added as are read.
    assert(family.read.size < 200 && family.spared > 200000)
    // Some were removed and come back.
    family.put(0, (298000L until 299000L))
    assert((298000L until 300000L).forall(family.lookUp(0, _)))
  }

  test("the memory is a bound, shared by all; what is full still helps, or is forgotten") {
    val memory = new HeapBudget(20000)
    val shares = Seq.fill(2)(memory.share())
    val filters = shares.map(share => new FamilyFilter(share, (_, _) => ()))
    filters.foreach(filter => (1 to 5000).foreach(_ => filter.missed(1, 5000)))
    assert(filters.forall(_.knows(1)) && shares.map(_.takenBytes).sum <= 20000)
    (1 to 100000).foreach { n =>
      filters.foreach(_.add(1, bytesOf(n.toLong), 5000L + n))
      assert(shares.map(_.takenBytes).sum <= 20000)
    }
    assert(!filters.exists(_.knows(1)) && shares.forall(_.takenBytes == 0))
    // Too many keys for what there is: it is not read, and not tried again at each lookup.
    val large = new Family(20000)
    large.stored(0) = mutable.Set.from(1L to 30000L)
    large.miss(0, 100000)
    assert(large.share.takenBytes == 0 && large.read.isEmpty)
  }

  test("a group is overfilled where there is no memory to grow") {
    val family = new Family(3000)
    family.put(0, 1L to 1000L)
    (1 to 20).foreach(n => family.put(0, n * 1000L until n * 1000L + 100))
    family.spared = 0
    family.miss(0, 1000)
    assert(family.filter.knows(0) && family.spared > 500)
  }

  test("a group that could not be read is not known, and takes nothing") {
    val share = new HeapBudget(1L << 20).share()
    var fails = true
    val filter = new FamilyFilter(
      share,
      (_, take) => {
        take(bytesOf(1))
        if (fails) throw new IOException("injected")
        take(bytesOf(2))
      }
    )
    (1 to 99).foreach(_ => filter.missed(0, 100))
    intercept[IOException](filter.missed(0, 100))
    assert(!filter.knows(0) && share.takenBytes == 0 && !filter.excludes(0, bytesOf(2)))
    fails = false
    (1 to 100).foreach(_ => filter.missed(0, 100))
    assert(filter.knows(0) && !filter.excludes(0, bytesOf(2)) && filter.excludes(0, bytesOf(3)))
  }

  test("memory goes back when a group is forgotten, a family closed, and a store closed") {
    val memory = new HeapBudget(10000)
    val share = memory.share()
    def known(group: Int) = {
      val filter = new FamilyFilter(share, (_, _) => ())
      (1 to 1000).foreach(_ => filter.missed(group, 1000))
      assert(filter.knows(group))
      filter
    }
    val filter = known(0)
    filter.forget(0)
    assert(share.takenBytes == 0 && !filter.excludes(0, bytesOf(1)))
    known(5).close()
    assert(share.takenBytes == 0)
    val late = known(2)
    share.close()
    late.close()
    assert(memory.share().take(10000) && !share.take(1))
  }
}
