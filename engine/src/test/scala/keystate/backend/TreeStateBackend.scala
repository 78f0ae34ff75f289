package keystate.backend

import java.io.File
import java.util.{Arrays, TreeMap}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

/** The smallest backend: one sorted map a state, from group and key to value. Changes are found by
  * comparison with what was committed, so it costs what there is, not what changed.
  */
final class TreeStateBackend extends KeyedStateBackend {
  private type Entries = TreeMap[Array[Byte], Array[Byte]]

  private var families = Map.empty[Int, StateFamily]
  private val working = mutable.TreeMap.empty[Int, Entries]
  private var committedFamilies = families
  private var committed = Map.empty[Int, Entries]

  override def register(family: StateFamily): Unit = if (!families.contains(family.id)) {
    families += family.id -> family
    working(family.id) = newEntries()
  }

  override def drop(familyId: Int): Unit = {
    families -= familyId
    working.remove(familyId)
    ()
  }

  override def get(family: Int, group: Int, key: Array[Byte]): Array[Byte] =
    entries(family).get(address(group, key))

  override def multiGet(
      family: Int,
      groups: Array[Int],
      keys: Array[Array[Byte]],
      values: Array[Array[Byte]],
      count: Int
  ): Unit = (0 until count).foreach(i => values(i) = get(family, groups(i), keys(i)))

  override def put(family: Int, group: Int, key: Array[Byte], value: Array[Byte]): Unit = {
    entries(family).put(address(group, key), value)
    ()
  }

  override def remove(family: Int, group: Int, key: Array[Byte]): Unit = {
    entries(family).remove(address(group, key))
    ()
  }

  override def loader(expected: (Int, Int) => Long): ChangeSink = ChangeSink.ofChanges { change =>
    import change._
    Seq(entries(family), committed.getOrElse(family, newEntries())).foreach { entries =>
      if (value == null) entries.remove(address(group, key))
      else entries.put(address(group, key), value)
    }
  }

  override def scan(family: Int, group: Int, start: Array[Byte], end: Array[Byte]): EntryIterator =
    iterator(range(family, group, start, end))

  override def scanReverse(
      family: Int,
      group: Int,
      start: Array[Byte],
      end: Array[Byte]
  ): EntryIterator = iterator(range(family, group, start, end).reverse)

  override def count(family: Int): Long = entries(family).size.toLong

  override def count(family: Int, group: Int): Long =
    entries(family)
      .subMap(address(group, Array.emptyByteArray), address(group + 1, Array.emptyByteArray))
      .size
      .toLong

  override def memoryUsed: Long = working.valuesIterator
    .flatMap(_.asScala)
    .map { case (key, value) => key.length.toLong + value.length }
    .sum

  override def writeChanges(sink: ChangeSink): Unit = sink.addAll(changes)

  private def changes: Iterator[Change] = working.iterator.flatMap { case (family, now) =>
    val before = committed.getOrElse(family, newEntries())
    val all = newEntries()
    all.putAll(before)
    all.putAll(now)
    all.keySet.asScala.iterator
      .filter(address => !Arrays.equals(before.get(address), now.get(address)))
      .map(at => Change(family, at(0) << 8 | at(1) & 0xff, at.drop(2), now.get(at)))
  }

  override def changeCount: Long = changes.size.toLong

  override def changesCommitted(): Unit = {
    committed = working.map { case (family, entries) => family -> copy(entries) }.toMap
    committedFamilies = families
  }

  override def rollback(): Unit = {
    families = committedFamilies
    working.clear()
    committed.foreach { case (family, entries) => working(family) = copy(entries) }
  }

  override def close(): Unit = working.clear()

  private def newEntries(): Entries =
    new TreeMap[Array[Byte], Array[Byte]](Arrays.compareUnsigned(_: Array[Byte], _: Array[Byte]))

  private def copy(entries: Entries): Entries = {
    val copy = newEntries()
    copy.putAll(entries)
    copy
  }

  private def entries(family: Int): Entries = working.getOrElse(
    family,
    throw new IllegalStateException(s"no state is registered with id $family")
  )

  private def address(group: Int, key: Array[Byte]): Array[Byte] =
    Array((group >> 8).toByte, group.toByte) ++ key

  private def range(family: Int, group: Int, start: Array[Byte], end: Array[Byte]): Seq[Entry] = {
    def keyOf(entryKey: Array[Byte]) =
      entryKey.take(4 + java.nio.ByteBuffer.wrap(entryKey).getInt(0))
    val oneKey = families(family).layout == Layout.Grouped && (start != null || end != null)
    val from = if (oneKey && start == null) keyOf(end) else start
    val until = if (oneKey && end == null) BytewiseOrder.after(keyOf(start)) else end
    entries(family).asScala.toSeq.collect {
      case (at, value)
          if at.startsWith(address(group, Array.emptyByteArray)) &&
            (from == null || Arrays.compareUnsigned(at.drop(2), from) >= 0) &&
            (until == null || Arrays.compareUnsigned(at.drop(2), until) < 0) =>
        new Entry(at.drop(2), value)
    }
  }

  private def iterator(entries: Seq[Entry]): EntryIterator = new EntryIterator {
    private val rest = entries.iterator
    override def hasNext: Boolean = rest.hasNext
    override def next(): Entry = rest.next()
    override def close(): Unit = ()
  }
}

/** What `spark.keystate.backend` names. */
class TreeStateBackendFactory extends StateBackendFactory {
  override def configure(options: Map[String, String]): Unit =
    options.keys.foreach(name => require(name == "label", s"there is no option '$name'"))

  override def create(maxParallelism: Int, newFolder: () => File): KeyedStateBackend =
    new TreeStateBackend
}

class TreeStateBackendSuite extends KeyedStateBackendSuite {
  override protected def newBackend(maxParallelism: Int): KeyedStateBackend = new TreeStateBackend
}
