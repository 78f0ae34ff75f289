package keystate.backend

import java.nio.ByteBuffer

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

/** What every state backend must do. */
abstract class KeyedStateBackendSuite extends AnyFunSuite {
  protected def newBackend(maxParallelism: Int): KeyedStateBackend

  protected val point = StateFamily(0, "point", Layout.Point)
  protected val grouped = StateFamily(1, "grouped", Layout.Grouped)
  protected val ordered = StateFamily(7, "ordered", Layout.Ordered)

  protected def bytes(text: String): Array[Byte] = text.getBytes("UTF-8")

  /** The key of an entry of a grouped state. */
  protected def entry(key: String, userKey: String): Array[Byte] = ByteBuffer
    .allocate(4 + key.length + userKey.length)
    .putInt(key.length)
    .put(bytes(key))
    .put(bytes(userKey))
    .array

  protected def withBackend(body: KeyedStateBackend => Any): Any = {
    val backend = newBackend(8)
    try {
      Seq(point, grouped, ordered).foreach(backend.register)
      backend.changesCommitted()
      body(backend)
    } finally backend.close()
  }

  protected def get(backend: KeyedStateBackend, family: StateFamily, group: Int, key: Array[Byte]) =
    Option(backend.get(family.id, group, key)).map(new String(_, "UTF-8"))

  private def changesOf(backend: KeyedStateBackend): Seq[Change] = {
    val changes = Seq.newBuilder[Change]
    backend.writeChanges(ChangeSink.ofChanges(changes += _))
    changes.result()
  }

  protected def all(entries: EntryIterator): Seq[(Seq[Byte], String)] =
    rows(entries).map { case (key, value) => key -> new String(value.toArray, "UTF-8") }

  private def rows(entries: EntryIterator): Seq[(Seq[Byte], Seq[Byte])] =
    try entries.map(e => e.key.toSeq -> e.value.toSeq).toVector
    finally entries.close()

  private def keysFor(family: StateFamily): Seq[Array[Byte]] =
    if (family == grouped) Seq(entry("k", "1"), entry("k", "2"), entry("kk", ""))
    else Seq(bytes("a"), bytes("b"), bytes(""))

  Seq(point, grouped, ordered).foreach { family =>
    test(s"${family.name}: put, overwrite, remove, count") {
      withBackend { backend =>
        val keys = keysFor(family)
        keys.foreach(key => assert(get(backend, family, 3, key).isEmpty))
        keys.foreach(key => backend.put(family.id, 3, key, bytes("one")))
        keys.foreach(key => assert(get(backend, family, 3, key).contains("one")))
        assert(get(backend, family, 4, keys.head).isEmpty, "another group")
        assert(backend.count(family.id) == 3)
        backend.put(family.id, 3, keys(1), bytes("two"))
        assert(get(backend, family, 3, keys(1)).contains("two"))
        assert(backend.count(family.id) == 3)
        backend.remove(family.id, 3, keys(1))
        backend.remove(family.id, 3, keys(1))
        assert(get(backend, family, 3, keys(1)).isEmpty)
        assert(backend.count(family.id) == 2)
        backend.put(family.id, 7, keys(1), bytes("three"))
        assert(Seq(2, 3, 7).map(backend.count(family.id, _)) == Seq(0, 2, 1))
        backend.put(family.id, 3, keys(1), bytes(""))
        assert(get(backend, family, 3, keys(1)).contains(""), "an empty value is a value")
      }
    }

    test(s"${family.name}: multiGet") {
      withBackend { backend =>
        val keys = keysFor(family)
        backend.put(family.id, 0, keys(0), bytes("x"))
        backend.put(family.id, 7, keys(2), bytes("y"))
        val values = Array.fill(4)(bytes("old"))
        backend.multiGet(family.id, Array(0, 0, 7), keys.toArray, values, 3)
        assert(
          values.toSeq.map(v => Option(v).map(new String(_))) ==
            Seq(Some("x"), None, Some("y"), Some("old"))
        )
      }
    }

    test(s"${family.name}: multiGet of many keys gives what get does") {
      withBackend { backend =>
        val random = new Random(7)
        val lengths = Seq(0, 10, 59, 60, 61, 300)
        val keys = Array.tabulate(10000) { n =>
          val name = s"$n" + "x" * lengths(n % lengths.size)
          if (family == grouped) entry(name, s"${n % 3}") else bytes(name)
        }
        val groups = keys.indices.map(_ % 8).toArray
        def value() = new Array[Byte](random.nextInt(if (random.nextInt(50) == 0) 9000 else 300))
        def change(share: Double): Unit = keys.indices.foreach { i =>
          if (random.nextDouble() < share)
            if (random.nextBoolean()) backend.put(family.id, groups(i), keys(i), value())
            else backend.remove(family.id, groups(i), keys(i))
        }
        change(0.8)
        backend.changesCommitted()
        change(0.1)
        for (count <- Seq(0, 1, 50, 5000, keys.length)) {
          val values = new Array[Array[Byte]](keys.length)
          backend.multiGet(family.id, groups, keys, values, count)
          assert(values.drop(count).forall(_ == null))
          for (i <- 0 until count) {
            val expected = Option(backend.get(family.id, groups(i), keys(i)))
            assert(Option(values(i)).map(_.length) == expected.map(_.length), s"key $i of $count")
          }
        }
        val before = backend.count(family.id)
        val made = keys.indices.filter(i => backend.get(family.id, groups(i), keys(i)) == null)
        made.foreach(i => backend.put(family.id, groups(i), keys(i), bytes("made")))
        assert(backend.count(family.id) == before + made.size && before + made.size == keys.length)
      }
    }

    test(s"${family.name}: rollback restores what was committed") {
      withBackend { backend =>
        val keys = keysFor(family)
        val (kept, changed, made) = (keys(0), keys(1), keys(2))
        backend.put(family.id, 1, kept, bytes("kept"))
        backend.put(family.id, 1, changed, bytes("before"))
        backend.changesCommitted()
        backend.put(family.id, 1, changed, bytes("after"))
        backend.put(family.id, 1, changed, bytes("after all"))
        backend.put(family.id, 1, made, bytes("made"))
        backend.remove(family.id, 1, kept)
        backend.rollback()
        assert(get(backend, family, 1, kept).contains("kept"))
        assert(get(backend, family, 1, changed).contains("before"))
        assert(get(backend, family, 1, made).isEmpty)
        assert(backend.count(family.id) == 2 && backend.count(family.id, 1) == 2)
        assert(backend.changeCount == 0 && changesOf(backend).isEmpty)
      }
    }
  }

  Seq(point, grouped, ordered).foreach { family =>
    test(s"${family.name}: agrees with a plain map under random transactions") {
      val seed = System.nanoTime
      info(s"seed $seed")
      val random = new Random(seed)
      val lengths = Seq(0, 5, 8, 30, 300, 20000)
      withBackend { backend =>
        var committed = Map.empty[(Int, Seq[Byte]), Seq[Byte]]
        (1 to 60).foreach { round =>
          var now = committed
          // A few keys again and again, or many new ones.
          val keys = if (round % 3 == 0) 2000 else 20
          (1 to random.nextInt(400)).foreach { _ =>
            val group = random.nextInt(2)
            val name = s"${random.nextInt(keys)}"
            val key = if (family == grouped) entry(name.take(1), name) else bytes(name)
            val at = group -> key.toSeq
            if (random.nextInt(3) == 0) {
              backend.remove(family.id, group, key)
              now -= at
            } else {
              val value = random.nextBytes(lengths(random.nextInt(lengths.size)))
              backend.put(family.id, group, key, value)
              now = now.updated(at, value.toSeq)
            }
            assert(Option(backend.get(family.id, group, key)).map(_.toSeq) == now.get(at))
          }
          val changed = (committed.keySet ++ now.keySet).filter { at =>
            !committed.get(at).exists(now.get(at).contains)
          }
          val changes = changesOf(backend)
          val ordered = Ordering
            .by[Change, Int](_.group)
            .orElse((a, b) => BytewiseOrder.comparator.compare(a.key, b.key))
          assert(changes == changes.sorted(ordered) && changes.size == backend.changeCount)
          val news = changes.map(c => (c.group, c.key.toSeq) -> Option(c.value).map(_.toSeq)).toMap
          assert(news.size == changes.size)
          // What was put or removed is a change, even if it is as it was.
          assert(changed.subsetOf(news.keySet) && news.forall { case (at, value) =>
            value == now.get(at) && (value.isDefined || committed.contains(at))
          })
          if (random.nextInt(3) == 0) backend.rollback()
          else {
            committed = now
            backend.changesCommitted()
          }
          assert(backend.changeCount == 0 && changesOf(backend).isEmpty)
          val entries = for {
            group <- 0 to 1
            (key, value) <- rows(backend.scan(family.id, group, null, null))
          } yield (group, key) -> value
          assert(entries.size == committed.size && entries.toMap == committed)
          assert(backend.count(family.id) == committed.size)
          (0 to 1).foreach { group =>
            assert(backend.count(family.id, group) == committed.keys.count(_._1 == group))
          }
        }
      }
    }
  }

  Seq(grouped, ordered).foreach { family =>
    test(s"${family.name}: the entries of one key after the other agree with a plain map") {
      val seed = System.nanoTime
      info(s"seed $seed")
      val random = new Random(seed)
      val names = (0 until 200).map(n => f"$n%03d")
      def prefix(name: String) = if (family == grouped) entry(name, "") else bytes(name)
      withBackend { backend =>
        var committed = Map.empty[(Int, String), Map[String, Int]].withDefaultValue(Map.empty)
        (1 to 40).foreach { _ =>
          var now = committed
          // As of rows that are sorted by their keys: these have groups by chance.
          val share = random.nextInt(40) + 1
          for (name <- names; group <- 0 to 2 if random.nextInt(share) == 0) {
            val start = prefix(name)
            val end = BytewiseOrder.after(start)
            def read() = all(backend.scan(family.id, group, start, end)).map { case (key, value) =>
              new String(key.drop(start.length).toArray) -> value.toInt
            }
            assert(read() == now(group -> name).toSeq.sorted, s"$group $name")
            (1 to random.nextInt(4)).foreach { _ =>
              val user = s"${random.nextInt(5)}"
              val of = now(group -> name)
              if (random.nextInt(3) == 0) {
                backend.remove(family.id, group, start ++ bytes(user))
                now += (group -> name) -> (of - user)
              } else {
                val value = random.nextInt(1000)
                backend.put(family.id, group, start ++ bytes(user), bytes(s"$value"))
                now += (group -> name) -> of.updated(user, value)
              }
            }
            if (random.nextInt(4) == 0) assert(read() == now(group -> name).toSeq.sorted)
          }
          assert(backend.count(family.id) == now.values.map(_.size).sum)
          if (random.nextInt(4) == 0) backend.rollback()
          else {
            committed = now
            backend.changesCommitted()
          }
        }
        assert(committed.nonEmpty)
      }
    }
  }

  test("ordered: short scans and writes of what they are next to agree with a plain map") {
    val seed = System.nanoTime
    info(s"seed $seed")
    val random = new Random(seed)
    withBackend { backend =>
      var committed = Map.empty[(Int, String), Int]
      var counted = 0L
      (1 to 200).foreach { _ =>
        var now = committed
        (1 to random.nextInt(40)).foreach { _ =>
          val group = random.nextInt(2)
          val prefix = s"${random.nextInt(6)}"
          val name = prefix + random.nextInt(9)
          random.nextInt(6) match {
            case 0 =>
              backend.remove(ordered.id, group, bytes(name))
              now -= group -> name
            case 1 | 2 =>
              val value = random.nextInt(1000)
              backend.put(ordered.id, group, bytes(name), bytes(s"$value"))
              now = now.updated(group -> name, value)
            case step =>
              val start = bytes(prefix)
              val entries = backend.scan(ordered.id, group, start, BytewiseOrder.after(start))
              // One that is not read to its end tells less.
              val found = (if (step == 3) entries.take(2) else entries).map { e =>
                new String(e.key) -> new String(e.value).toInt
              }.toVector
              entries.close()
              val expected = now.collect {
                case ((`group`, key), value) if key.startsWith(prefix) => key -> value
              }
              val sorted = expected.toVector.sorted
              assert(found == (if (step == 3) sorted.take(2) else sorted))
          }
          assert(backend.count(ordered.id) == now.size)
        }
        if (random.nextInt(3) == 0) backend.rollback()
        else {
          counted += backend.changeCount
          committed = now
          backend.changesCommitted()
        }
      }
      assert(counted > 0)
    }
  }

  test("entries that are read and removed in their order agree with a plain map") {
    val random = new Random(7)
    withBackend { backend =>
      var now = Map.empty[(Int, Int), Int]
      def name(n: Int) = bytes(f"$n%04d")
      (1 to 30).foreach { round =>
        for (group <- 0 to 1; n <- 0 until 300 if random.nextInt(3) == 0) {
          backend.put(point.id, group, name(n), bytes(s"$round"))
          now = now.updated((group, n), round)
        }
        backend.changesCommitted()
        val every = 1 + random.nextInt(6)
        for (group <- 0 to 1; n <- 0 until 300 by every) {
          val found = Option(backend.get(point.id, group, name(n))).map(new String(_).toInt)
          assert(found == now.get((group, n)))
          if (random.nextInt(4) == 0) {
            val other = random.nextInt(300)
            backend.remove(point.id, group, name(other))
            now -= group -> other
          }
        }
        assert(backend.count(point.id) == now.size)
        backend.changesCommitted()
      }
    }
  }

  test("changes are net and sorted by family, group and key") {
    withBackend { backend =>
      backend.put(ordered.id, 0, bytes("c"), bytes("3"))
      backend.put(ordered.id, 0, Array[Byte](-1), bytes("4"))
      backend.put(point.id, 5, bytes("z"), bytes("1"))
      backend.put(point.id, 2, bytes("z"), bytes("0"))
      backend.put(point.id, 2, bytes("z"), bytes("2"))
      backend.changesCommitted()
      assert(backend.changeCount == 0)

      backend.put(ordered.id, 0, bytes("b"), bytes("new"))
      backend.put(ordered.id, 0, Array[Byte](-1), bytes("changed"))
      backend.remove(ordered.id, 0, bytes("c"))
      backend.put(point.id, 2, bytes("z"), bytes("changed"))
      backend.put(point.id, 1, bytes("made"), bytes("and"))
      backend.remove(point.id, 1, bytes("made"))
      backend.remove(point.id, 1, bytes("never there"))
      backend.remove(point.id, 5, bytes("z"))
      backend.put(point.id, 5, bytes("z"), bytes("again"))

      val changed = changesOf(backend)
        .map(c => (c.family, c.group, c.key.toSeq, Option(c.value).map(new String(_))))
        .toSeq
      assert(
        changed == Seq(
          (point.id, 2, bytes("z").toSeq, Some("changed")),
          (point.id, 5, bytes("z").toSeq, Some("again")),
          (ordered.id, 0, bytes("b").toSeq, Some("new")),
          (ordered.id, 0, bytes("c").toSeq, None),
          (ordered.id, 0, Seq[Byte](-1), Some("changed"))
        )
      )
      assert(backend.changeCount == changed.size)
      assert(changesOf(backend).size == changed.size, "changes can be read again")
    }
  }

  test("loaded entries are no changes") {
    withBackend { backend =>
      val loader = backend.loader((family, group) => if (family == point.id) group * 3L else 0L)
      loader.add(point.id, 1, bytes("a"), bytes("1"))
      loader.add(point.id, 1, bytes("b"), bytes("1"))
      loader.add(point.id, 1, bytes("b"), null)
      loader.add(point.id, 1, bytes("c"), null)
      loader.add(ordered.id, 1, bytes("xkeyx"), 1, 3, bytes("valuexx"), 0, 5)
      assert(backend.changeCount == 0)
      assert(backend.count(point.id) == 1)
      backend.rollback()
      assert(get(backend, point, 1, bytes("a")).contains("1"))
      assert(get(backend, ordered, 1, bytes("key")).contains("value"))
    }
  }

  test("ordered: scans in bytewise order, both ways, within bounds") {
    withBackend { backend =>
      val keys =
        Seq(Array[Byte](), Array[Byte](0), Array[Byte](0, 0), Array[Byte](1), Array[Byte](-1))
      keys.reverse.foreach(key => backend.put(ordered.id, 2, key, bytes(s"${key.toSeq}")))
      backend.put(ordered.id, 3, Array[Byte](0), bytes("another group"))
      def scan(from: Int, until: Int) =
        all(backend.scan(ordered.id, 2, keys.lift(from).orNull, keys.lift(until).orNull)).map(_._1)
      def reverse(from: Int, until: Int) = all(
        backend.scanReverse(ordered.id, 2, keys.lift(from).orNull, keys.lift(until).orNull)
      ).map(_._1)
      for (from <- -1 to 4; until <- 0 to 5) {
        val expected = keys.map(_.toSeq).slice(from, until)
        assert(scan(from, until) == expected, s"$from until $until")
        assert(reverse(from, until) == expected.reverse, s"$from until $until")
      }
    }
  }

  test("grouped: a scan stays with its key") {
    withBackend { backend =>
      Seq("k" -> "b", "k" -> "a", "k" -> "", "kk" -> "a", "j" -> "z").foreach {
        case (key, userKey) =>
          backend.put(grouped.id, 2, entry(key, userKey), bytes(s"$key/$userKey"))
      }
      def values(entries: EntryIterator) = all(entries).map(_._2)
      assert(values(backend.scan(grouped.id, 2, entry("k", ""), null)) == Seq("k/", "k/a", "k/b"))
      assert(values(backend.scan(grouped.id, 2, entry("k", "a"), entry("k", "b"))) == Seq("k/a"))
      assert(
        values(backend.scanReverse(grouped.id, 2, entry("k", ""), null)) == Seq("k/b", "k/a", "k/")
      )
      assert(values(backend.scanReverse(grouped.id, 2, null, entry("k", "b"))) == Seq("k/a", "k/"))
      assert(values(backend.scan(grouped.id, 2, entry("x", ""), null)).isEmpty)
      val whole = Seq("j/z", "k/", "k/a", "k/b", "kk/a")
      assert(values(backend.scan(grouped.id, 2, null, null)) == whole)
      assert(values(backend.scanReverse(grouped.id, 2, null, null)) == whole.reverse)
    }
  }

  test("point: a scan gives all entries of the group") {
    withBackend { backend =>
      (0 until 100).foreach(i => backend.put(point.id, i % 2, bytes(s"$i"), bytes(s"$i")))
      assert(
        all(backend.scan(point.id, 1, null, null)).map(_._2.toInt).sorted == (1 until 100 by 2)
      )
      assert(all(backend.scan(point.id, 5, null, null)).isEmpty)
    }
  }

  Seq(point, grouped, ordered).foreach { family =>
    test(s"${family.name}: changes while iterating lose and repeat no entry that stays") {
      withBackend { backend =>
        def key(i: Int) =
          if (family == grouped) entry(s"k${i % 3}", f"$i%05d") else bytes(f"$i%05d")
        val keys = (0 until 3000).map(key)
        keys.foreach(k => backend.put(family.id, 0, k, bytes("old")))
        val entries = backend.scan(family.id, 0, null, null)
        var seen = 0
        entries.foreach { e =>
          seen += 1
          if (seen % 2 == 0) backend.put(family.id, 0, e.key, bytes("new"))
          else backend.remove(family.id, 0, e.key)
        }
        entries.close()
        assert(seen == keys.size)
        assert(backend.count(family.id) == keys.size / 2)
      }
    }
  }

  test("stable scans show entries as they were when they began, whatever changes meanwhile") {
    val seed = System.nanoTime
    info(s"seed $seed")
    val random = new Random(seed)
    def key() = bytes(f"${random.nextInt(120)}%03d")
    var changesSeen = 0
    for (_ <- 1 to 60) withBackend { backend =>
      val scans = new StableScans(backend.get(ordered.id, _, _))
      def change(group: Int, key: Array[Byte]): Unit = {
        scans.changing(group, key)
        if (random.nextInt(3) == 0) backend.remove(ordered.id, group, key)
        else backend.put(ordered.id, group, key, bytes(s"${random.nextInt()}"))
      }
      // A key has one group.
      def groupOf(key: Array[Byte]) = key.last % 3
      (1 to random.nextInt(300)).foreach { _ =>
        val made = key()
        change(groupOf(made), made)
        if (random.nextInt(100) == 0) backend.changesCommitted()
      }
      // Many are left open.
      val most = if (random.nextInt(10) == 0) 60 else 3
      var running = Seq.empty[(EntryIterator, Iterator[(Seq[Byte], String)])]
      (1 to 400).foreach { _ =>
        random.nextInt(8) match {
          case 0 if running.size < most =>
            val bounds =
              Seq(key(), key()).sorted(Ordering.comparatorToOrdering(BytewiseOrder.comparator))
            val (start, end) =
              if (random.nextBoolean()) (null, null) else (bounds.head, bounds.last)
            def scanOf(group: Int, from: Array[Byte]) =
              backend.scan(ordered.id, group, if (from == null) start else from, end)
            val kind = random.nextInt(5)
            def of(scan: Int => EntryIterator) = kind match {
              case 0 => GroupScan.merge(0 to 2, scan)
              case 1 => GroupScan.concat(0 to 2, scan)
              case _ => scan(kind - 2)
            }
            val begun =
              if (kind < 2) scans.scan((start, end), scanOf, of)
              else scans.scanOfKey((start, end), scanOf, kind - 2)
            val expected = all(of(backend.scan(ordered.id, _, start, end)))
            running :+= begun -> expected.iterator
          case 1 =>
            running.lastOption.foreach { case (scan, _) =>
              if (random.nextInt(4) == 0) {
                scan.close()
                running = running.init
              }
            }
          case 2 | 3 =>
            val changed = key()
            if (running.nonEmpty) changesSeen += 1
            change(groupOf(changed), changed)
          case _ =>
            running = running.filter { case (scan, expected) =>
              if (random.nextInt(3) == 0) scan.hasNext: Unit
              assert(scan.hasNext == expected.hasNext)
              if (scan.hasNext) {
                val entry = scan.next()
                assert((entry.key.toSeq, new String(entry.value)) == expected.next())
                if (random.nextBoolean()) change(groupOf(entry.key), entry.key)
              }
              scan.hasNext || expected.hasNext
            }
        }
      }
    }
    assert(changesSeen > 500)
  }

  test("scans that nobody ends do not stay open") {
    withBackend { backend =>
      val scans = new StableScans(backend.get(ordered.id, _, _))
      def key(n: Int, i: Int) = bytes(f"$n%05d $i%02d")
      for (n <- 0 until 400; i <- 0 until 20) backend.put(ordered.id, 0, key(n, i), bytes("old"))
      backend.changesCommitted()
      var open = 0
      var read = 0
      def scanOf(start: Array[Byte], end: Array[Byte])(group: Int, from: Array[Byte]) = {
        open += 1
        val entries = backend.scan(ordered.id, group, if (from == null) start else from, end)
        new EntryIterator {
          override def hasNext: Boolean = entries.hasNext
          override def next(): Entry = {
            read += 1
            entries.next()
          }
          override def close(): Unit = {
            open -= 1
            entries.close()
          }
        }
      }
      val begun = (0 until 400).map { n =>
        val start = bytes(f"$n%05d ")
        val end = BytewiseOrder.after(start)
        scans.scanOfKey((start, end), scanOf(start, end)(_, _), 0)
      }
      val wide = scans.scan((null, null), scanOf(null, null)(_, _), GroupScan.merge(0 to 2, _))
      assert(wide.hasNext && open == 32 + 1 && read < 400 * 6)
      begun.foreach(entries => assert(entries.next().value.sameElements(bytes("old"))))
      for (n <- 0 until 400; i <- 0 until 20) {
        scans.changing(0, key(n, i))
        backend.put(ordered.id, 0, key(n, i), bytes("new"))
      }
      assert(begun.drop(100).forall(_.forall(_.value.sameElements(bytes("old")))))
      begun.take(100).foreach(scan => (1 to 5).foreach(_ => scan.next()))
      assert(open > 1)
      scans.close()
      assert(open == 0 && !wide.hasNext && begun.forall(!_.hasNext))
    }
  }

  test("what changes is noted once for all scans of one key that are open") {
    withBackend { backend =>
      var gets = 0
      val scans = new StableScans((group, key) => {
        gets += 1
        backend.get(ordered.id, group, key)
      })
      (0 until 20).foreach(i => backend.put(ordered.id, 0, bytes(f"k$i%02d"), bytes("0")))
      val (start, end) = (bytes("k"), bytes("l"))
      def scanOf(group: Int, from: Array[Byte]) =
        backend.scan(ordered.id, group, if (from == null) start else from, end)
      // Each row asks for the entries, reads none or few, and changes one.
      val begun = (1 to 1000).map { row =>
        val scan = scans.scanOfKey((start, end), scanOf(_, _), 0)
        val key = bytes(f"k${row % 20}%02d")
        scans.changing(0, key)
        backend.put(ordered.id, 0, key, bytes(s"$row"))
        scan
      }
      assert(gets == 1000)
      for (i <- Seq(0, 1, 500, 999)) {
        val found = begun(i).map(entry => new String(entry.value).toInt).toSeq
        val expected = (0 until 20).map(n => (i to 1 by -1).find(_ % 20 == n).getOrElse(0))
        assert(found == expected, i)
      }
    }
  }

  test("a dropped state is gone, and back after a rollback") {
    withBackend { backend =>
      backend.put(point.id, 0, bytes("a"), bytes("1"))
      backend.changesCommitted()
      backend.put(point.id, 0, bytes("a"), bytes("2"))
      backend.drop(point.id)
      assert(changesOf(backend).isEmpty)
      backend.rollback()
      assert(get(backend, point, 0, bytes("a")).contains("1"))
      backend.drop(point.id)
      backend.changesCommitted()
      backend.rollback()
      intercept[IllegalStateException](backend.get(point.id, 0, bytes("a")))
    }
  }

  test("a state made in a transaction goes with its rollback") {
    withBackend { backend =>
      val made = StateFamily(3, "made", Layout.Point)
      backend.register(made)
      backend.put(3, 0, bytes("a"), bytes("1"))
      backend.rollback()
      backend.register(StateFamily(3, "other", Layout.Ordered))
      assert(backend.count(3) == 0)
      assert(all(backend.scanReverse(3, 0, null, null)).isEmpty)
    }
  }

  test("memory used goes up and down with the entries") {
    withBackend { backend =>
      val empty = backend.memoryUsed
      backend.put(point.id, 0, bytes("a"), new Array[Byte](1000))
      val one = backend.memoryUsed
      assert(one - empty >= 1000)
      backend.put(point.id, 0, bytes("a"), new Array[Byte](10))
      assert(backend.memoryUsed < one)
      backend.remove(point.id, 0, bytes("a"))
      assert(backend.memoryUsed == empty)
    }
  }
}
