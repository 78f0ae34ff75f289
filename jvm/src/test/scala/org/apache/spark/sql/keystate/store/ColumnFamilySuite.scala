package org.apache.spark.sql.keystate.store

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.catalyst.expressions.{Literal, Murmur3Hash, UnsafeRow}
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._

import keystate.backend.{GroupedKey, Layout, StateValue}
import keystate.config.Settings
import keystate.keygroup.KeyGroups
import org.apache.spark.sql.keystate.encoding.OrderedKeyCodec

/** What each of Spark's key encodings may do, and Keystate's states as Spark's reader sees them. */
class ColumnFamilySuite extends AnyFunSuite with ColumnFamilyFixture {
  private val rangeSchema = new StructType().add("time", LongType).add("name", StringType)
  private val times = Seq(Long.MinValue, -100L, -1L, 0L, 1L, 255L, 256L, 1L << 40, Long.MaxValue)

  test("prefix encoding: scans of a prefix, which is in one key group") {
    withStore(PrefixKeyScanStateEncoderSpec(keySchema, 1)) { store =>
      val prefixSchema = StructType(keySchema.take(1))
      for (name <- Seq("a", "b", "aa", ""); n <- 0 until 50)
        store.put(key(name, n.toLong), value(n), "cf")
      Seq("a", "b", "aa", "").foreach { name =>
        val found = longs(store.prefixScan(row(prefixSchema, name), "cf"), 1)
        assert(found.sorted == (0 until 50))
      }
      assert(store.prefixScan(row(prefixSchema, "c"), "cf").isEmpty)
      assert(store.iterator("cf").size == 200)
      store.remove(key("a", 7), "cf")
      assert(store.prefixScan(row(prefixSchema, "a"), "cf").size == 49)
      intercept[IllegalArgumentException](store.rangeScan(None, None, "cf"))
      intercept[IllegalStateException](store.deleteRange(key("a", 0), key("a", 9), "cf"))
    }
  }

  private val ids = new StructType().add("id", LongType).add("n", LongType)

  test("prefix encoding: a group's keys are in the order of their prefixes") {
    val folder = newFolder()
    val spec = PrefixKeyScanStateEncoderSpec(ids, 1)
    val stored = withIds(folder, 0)(_.createColFamilyIfAbsent("cf", _, _, spec))
    stored.values.foreach(group => assert(group == group.sorted))
    assert(withIds(folder, 1)(_.createColFamilyIfAbsent("cf", _, _, spec)) == stored)
  }

  /** Reads and writes two entries of each of some ids. Returns the ids by key group, as they are
    * stored.
    */
  private def withIds(folder: String, version: Int)(
      declare: (KeyGroupStateStore, StructType, StructType) => Any
  ): Map[Int, Seq[Long]] = withProvider(newProvider(folder)) { provider =>
    val store = provider.getStore(version.toLong, None).asInstanceOf[KeyGroupStateStore]
    declare(store, ids, valueSchema)
    val all = (-400L until 400L).map(_ * 77777)
    for (id <- all) {
      val found = store.prefixScan(row(StructType(ids.take(1)), id), "cf").map { pair =>
        (pair.key.getLong(0), pair.key.getLong(1), pair.value.getInt(0))
      }
      val expected = if (version == 0) Nil else Seq(1L, 2L).map((id, _, version - 1))
      assert(found.toSet == expected.toSet)
      Seq(1L, 2L).foreach(n => store.put(row(ids, id, n), value(version), "cf"))
    }
    val groups = store.iterator("cf").map(_.key.getLong(0)).toVector.distinct.groupBy { id =>
      KeyGroups.groupOf(
        new Murmur3Hash(Seq(Literal(id))).eval().asInstanceOf[Int],
        store.maxParallelism
      )
    }
    assert(groups.values.map(_.size).sum == all.size)
    store.commit()
    val changed = provider
      .getStateStoreChangeDataReader(version + 1L, version + 1L, Some("cf"))
      .map(_._2.getLong(0))
    assert(changed.toSet == all.toSet)
    groups
  }

  test("range encoding: the order of the column over all key groups, both iterator and scans") {
    withStore(RangeKeyScanStateEncoderSpec(rangeSchema, Seq(0))) { store =>
      def at(time: Long) = row(rangeSchema, time, s"k$time")
      Random.shuffle(times).foreach(time => store.put(at(time), value(1), "cf"))
      assert(longs(store.iterator("cf"), 0) == times)
      def bound(time: Long) = row(rangeSchema, time, "")
      assert(longs(store.rangeScan(None, Some(bound(0)), "cf"), 0) == times.takeWhile(_ < 0))
      assert(longs(store.rangeScan(Some(bound(0)), None, "cf"), 0) == times.dropWhile(_ < 0))
      assert(
        longs(store.rangeScan(Some(bound(-1)), Some(bound(256)), "cf"), 0) == Seq(-1L, 0L, 1L, 255L)
      )
      val prefix = row(StructType(rangeSchema.take(1)), 255L)
      assert(longs(store.prefixScan(prefix, "cf"), 0) == Seq(255L))
      store.deleteRange(bound(-1), bound(256), "cf")
      assert(longs(store.iterator("cf"), 0) == times.filter(t => t < -1 || t >= 256))
    }
  }

  test("a scan that is open shows no timer that was registered or deleted meanwhile") {
    for (backend <- Seq("hashmap", "rocksdb")) {
      val spec = RangeKeyScanStateEncoderSpec(rangeSchema, Seq(0))
      withProvider(newProvider(hadoop = Map(Settings.Backend.key -> backend))) { provider =>
        val store = provider.getStore(0, None)
        store.createColFamilyIfAbsent("cf", spec.keySchema, valueSchema, spec)
        // All of one name, and so in one key group.
        def at(time: Long) = row(rangeSchema, time, "k")
        (10L to 80L by 10).foreach(time => store.put(at(time), value(1), "cf"))
        val due = store.iterator("cf")
        val fired = due.map { pair =>
          val time = pair.key.getLong(0)
          if (time == 10) {
            store.put(at(75), value(2), "cf")
            store.remove(at(60), "cf")
          }
          store.remove(at(time), "cf")
          time
        }.toVector
        assert(fired == (10L to 80L by 10), backend)
        assert(longs(store.iterator("cf"), 0) == Seq(75L), backend)
        val left = store.iterator("cf")
        assert(left.next().key.getLong(0) == 75)
        store.put(at(90), value(3), "cf")
        store.commit()
        assert(!left.hasNext, "what nobody ended is ended by the commit")
      }
    }
  }

  private val joined = "left-keyWithIndexToValue"
  private val numbered = new StructType().add("name", StringType).add("index", LongType)

  test("the numbered values of a join's key are next to each other") {
    val folder = newFolder()
    val spec = NoPrefixKeyStateEncoderSpec(numbered)
    (0 to 1).foreach { version =>
      assert(withNumbered(folder, version)(_.createColFamilyIfAbsent(joined, _, _, spec)).size == 3)
    }
  }

  /** Reads and writes thirty numbered values of each of three keys. Returns how many each key group
    * has that has any.
    */
  private def withNumbered(folder: String, version: Int)(
      declare: (KeyGroupStateStore, StructType, StructType) => Any
  ): Map[Int, Long] = withProvider(newProvider(folder)) { provider =>
    val store = provider.getStore(version.toLong, None).asInstanceOf[KeyGroupStateStore]
    declare(store, numbered, valueSchema)
    for (name <- Seq("a", "b", "c"); n <- 0L until 30L) {
      val found = Option(store.get(row(numbered, name, n), joined)).map(_.getInt(0))
      assert(found == Option.when(version > 0)(version - 1))
      store.put(row(numbered, name, n), value(version), joined)
    }
    val family = store.family(joined).get
    val counts = (0 until store.maxParallelism).map(group =>
      group -> provider.versions.backend.count(family.id, group)
    )
    store.commit()
    counts.filter(_._2 > 0).toMap
  }

  test("several values of a key") {
    withStore(NoPrefixKeyStateEncoderSpec(keySchema), multipleValues = true) { store =>
      def values(name: String) = store.valuesIterator(key(name, 1), "cf").map(_.getInt(0)).toSeq
      assert(values("a").isEmpty)
      store.merge(key("a", 1), value(1), "cf")
      store.mergeList(key("a", 1), Array(value(2), value(3)), "cf")
      store.putList(key("b", 1), Array(value(4), value(5)), "cf")
      assert(values("a") == Seq(1, 2, 3) && values("b") == Seq(4, 5))
      assert(store.get(key("a", 1), "cf").getInt(0) == 1)
      val all = store.iteratorWithMultiValues("cf").map { pair =>
        pair.key.getString(0) -> pair.value.getInt(0)
      }
      assert(all.toSet == Set("a" -> 1, "a" -> 2, "a" -> 3, "b" -> 4, "b" -> 5))
      store.put(key("a", 1), value(9), "cf")
      assert(values("a") == Seq(9))
    }
    withStore(NoPrefixKeyStateEncoderSpec(keySchema)) { store =>
      intercept[IllegalStateException](store.merge(key("a", 1), value(1), "cf"))
      intercept[IllegalStateException](store.valuesIterator(key("a", 1), "cf"))
    }
  }

  test("a key's group is by the hash that Spark shuffles by") {
    withProvider(newProvider()) { provider =>
      val store = provider.getStore(0, None).asInstanceOf[KeyGroupStateStore]
      store.put(key("a", 1), value(1))
      val id = store.family("default").get.id
      val hash = new Murmur3Hash(Seq(Literal("a"), Literal(1L))).eval().asInstanceOf[Int]
      val group = KeyGroups.groupOf(hash, 128)
      assert(store.lease.backend.scan(id, group, null, null).size == 1)
      store.abort()
    }
  }

  test("rows are checked against the schema once, unless that is switched off") {
    withProvider(newProvider(columnFamilies = false)) { provider =>
      val store = provider.getStore(0, None)
      store.put(key("a", 1), row(new StructType().add("not", LongType), Long.MaxValue))
      intercept[StateStoreValueRowFormatValidationFailure](store.get(key("a", 1)))
      store.abort()
    }
    val off = Map(SQLConf.STATE_STORE_FORMAT_VALIDATION_ENABLED.key -> "false")
    withProvider(newProvider(columnFamilies = false, conf = off)) { provider =>
      val store = provider.getStore(0, None)
      store.put(key("a", 1), row(new StructType().add("not", LongType), Long.MaxValue))
      assert(store.get(key("a", 1)) != null)
      store.abort()
    }
  }

  // Keystate's own states, written the way the keyed operator does.

  private val grouping = new StructType().add("id", LongType)
  private def group(id: Long): Int = {
    val hash = new Murmur3Hash(Seq(Literal(id))).eval().asInstanceOf[Int]
    KeyGroups.groupOf(hash, 128)
  }

  private def keystateStore(name: String, layout: Layout, properties: (String, String)*)(
      write: (KeyGroupStateStore, Int) => Any
  )(read: ReadStateStore => Any)(columnFamily: StateStore => Unit): Any =
    withProvider(newProvider()) { provider =>
      val store = provider.getStore(0, None).asInstanceOf[KeyGroupStateStore]
      write(store, store.registerFamily(name, layout, properties.toMap).id)
      store.commit()
      // As Spark's reader of state does it.
      val declaring = provider.getStore(1, None)
      columnFamily(declaring)
      declaring.abort()
      val reading = provider.getReadStore(1, None)
      read(reading)
      reading.release()
    }

  test("a value state read through Spark's interface") {
    val schema = new StructType().add("sum", LongType).add("name", StringType)
    keystateStore("state", Layout.Point, "kind" -> "value", "valueType" -> schema.json) {
      (store, family) =>
        (1L to 20).foreach { id =>
          val stored = StateValue.encode(row(schema, id * 10, s"v$id").getBytes)
          store.lease.backend.put(family, group(id), row(grouping, id).getBytes, stored)
        }
        intercept[SparkThrowable](store.put(row(grouping, 1L), row(schema, 1L, "x"), "state"))
    } { store =>
      assert(store.get(row(grouping, 3L), "state").getString(1) == "v3")
      assert(store.get(row(grouping, 99L), "state") == null)
      val all = store.iterator("state").map(p => p.key.getLong(0) -> p.value.getLong(0)).toMap
      assert(all == (1L to 20).map(id => id -> id * 10).toMap)
    } {
      _.createColFamilyIfAbsent("state", grouping, schema, NoPrefixKeyStateEncoderSpec(grouping))
    }
  }

  test("a map state read through Spark's interface") {
    val userKey = new StructType().add("key", StringType)
    val entryKey = new StructType().add("key", grouping).add("userKey", userKey)
    keystateStore(
      "state",
      Layout.Grouped,
      "kind" -> "map",
      "keyType" -> StringType.json,
      "valueType" -> IntegerType.json
    ) { (store, family) =>
      val codec = OrderedKeyCodec(StringType)
      for (id <- 1L to 5; user <- Seq("x", "y", "")) {
        val entry =
          GroupedKey.entry(row(grouping, id).getBytes, codec.encode(row(userKey, user), 0))
        store.lease.backend.put(
          family,
          group(id),
          entry,
          StateValue.encode(value(id.toInt).getBytes)
        )
      }
    } { store =>
      val all = store.iterator("state").map { pair =>
        val entry = (pair.key.getStruct(0, 1).getLong(0), pair.key.getStruct(1, 1).getString(0))
        entry -> pair.value.getInt(0)
      }
      assert(
        all.toSet == (for (i <- 1 to 5; u <- Seq("x", "y", "")) yield (i.toLong, u) -> i).toSet
      )
      val one = row(entryKey, row(grouping, 2L), row(userKey, "y"))
      assert(store.get(one, "state").getInt(0) == 2)
      val prefix = row(StructType(entryKey.take(1)), row(grouping, 2L))
      val users = store.prefixScan(prefix, "state").map(_.key.getStruct(1, 1).getString(0)).toSeq
      assert(users == Seq("", "x", "y"))
    } {
      _.createColFamilyIfAbsent(
        "state",
        entryKey,
        valueSchema,
        PrefixKeyScanStateEncoderSpec(entryKey, 1)
      )
    }
  }

  test("a list state read through Spark's interface") {
    val chunk = new StructType().add("value", ArrayType(IntegerType))
    keystateStore("state", Layout.Grouped, "kind" -> "list", "valueType" -> IntegerType.json) {
      (store, family) =>
        for (id <- 1L to 5; n <- 0L to 2) {
          val number = java.nio.ByteBuffer.allocate(8).putLong(n).array
          val array = new GenericArrayData(Array[Any]((n * 10).toInt, null, id.toInt))
          store.lease.backend.put(
            family,
            group(id),
            GroupedKey.entry(row(grouping, id).getBytes, number),
            StateValue.encode(row(chunk, array).getBytes)
          )
        }
    } { store =>
      assert(store.iterator("state").map(_.key.getLong(0)).toSet == (1L to 5).toSet)
      def int(row: UnsafeRow) = Option.when(!row.isNullAt(0))(row.getInt(0))
      val expected = (0 to 2).flatMap(n => Seq(Some(n * 10), None, Some(4)))
      assert(store.valuesIterator(row(grouping, 4L), "state").map(int).toSeq == expected)
      assert(store.valuesIterator(row(grouping, 9L), "state").isEmpty)
      assert(store.asInstanceOf[KeyGroupStateStore].iteratorWithMultiValues("state").size == 45)
    } {
      _.createColFamilyIfAbsent(
        "state",
        grouping,
        valueSchema,
        NoPrefixKeyStateEncoderSpec(grouping),
        useMultipleValuesPerKey = true
      )
    }
  }
}
