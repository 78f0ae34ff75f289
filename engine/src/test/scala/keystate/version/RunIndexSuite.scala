package keystate.version

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, SequenceInputStream}

import scala.jdk.CollectionConverters._
import scala.util.Random

import net.jpountz.lz4.LZ4FrameInputStream
import org.scalacheck.{Gen, Shrink}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import keystate.backend.{Change, RunFormat}
import keystate.keygroup.KeyGroupRange

class RunIndexSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  // Smaller seeds are no simpler.
  private implicit def noShrink[T]: Shrink[T] = Shrink.withLazyList(_ => LazyList.empty)

  private type Row = (Int, Int, Seq[Byte], Option[Seq[Byte]])

  private def row(change: Change): Row =
    (change.family, change.group, change.key.toSeq, Option(change.value).map(_.toSeq))

  private def entries(seed: Long, count: Int): Vector[Change] = {
    val random = new Random(seed)
    val families = Seq(0, 1, 2, 300, RunFormat.MaxFamilyId)
    Vector
      .fill(count) {
        val value = if (random.nextInt(9) == 0) null else random.nextBytes(random.nextInt(60))
        val group = random.nextInt(if (random.nextBoolean()) 8 else 32769)
        Change(families(random.nextInt(families.size)), group, random.nextBytes(8), value)
      }
      .sorted(RunFormat.order)
  }

  private def write(entries: Seq[Change], sectionBytes: Int): Array[Byte] = {
    val out = new ByteArrayOutputStream
    val statistics = SectionedRun.write(out, sectionBytes, _.addAll(entries))
    assert(statistics.entries == entries.size)
    out.toByteArray
  }

  private def index(file: Array[Byte]): Option[Vector[Section]] =
    RunIndex.lengthAtEnd(file.takeRight(4)).flatMap { length =>
      RunIndex.decode(file.takeRight(length), file.length.toLong)
    }

  private def read(parts: Seq[Array[Byte]], families: Set[Int], groups: KeyGroupRange): Seq[Row] = {
    val streams = parts.iterator.map(new ByteArrayInputStream(_))
    val in = new LZ4FrameInputStream(new SequenceInputStream(streams.asJavaEnumeration))
    PlainRun.read(in, families, groups, identity).map(row).toVector
  }

  /** How many sections there should be. */
  private def cut(entries: Seq[Change], sectionBytes: Int): Int = {
    var (count, bytes) = (1, 0)
    var last = entries.head
    entries.foreach { entry =>
      if ((entry.family, entry.group) != ((last.family, last.group)) && bytes >= sectionBytes) {
        count += 1
        bytes = 0
      }
      bytes += 13 + entry.key.length + Option(entry.value).fold(0)(_.length)
      last = entry
    }
    count
  }

  private val everything = KeyGroupRange(0, 0xffff)
  private val sizes = Gen.oneOf(1, 100, 1000, 20000, SectionedRun.SectionBytes)
  private val families = Gen.listOf(Gen.oneOf(0, 1, 2, 3, 300, RunFormat.MaxFamilyId))
  private val groups = Gen.oneOf(Gen.choose(0, 9), Gen.choose(0, 32768))

  test("the sections that are chosen have what a plain filter finds, and little else") {
    forAll(Gen.long, Gen.choose(1, 3000), sizes, families, groups, groups) {
      (seed, count, size, ids, a, b) =>
        val all = entries(seed, count)
        val file = write(all, size)
        // What knows no index finds everything.
        assert(read(Seq(file), all.map(_.family).toSet, everything) == all.map(row))
        val sections = index(file)
        assert(sections.fold(1)(_.size) == cut(all, size))
        val (wanted, range) = (ids.toSet, KeyGroupRange(a min b, a max b))
        val rows = all.filter(e => wanted.contains(e.family) && range.contains(e.group)).map(row)
        val parts = sections.toSeq
          .flatMap(RunIndex.choose(_, wanted, range))
          .map(part => file.slice(part.offset.toInt, part.end.toInt))
        if (sections.isDefined) assert(parts.flatMap(p => read(Seq(p), wanted, range)) == rows)
        if (parts.nonEmpty) assert(read(parts, wanted, range) == rows)
        assert(parts.count(part => read(Seq(part), wanted, range).isEmpty) <= wanted.size)
    }
  }

  test("a file of one section has no index, and ends as files did before there was one") {
    val file = write(entries(1, 100), Int.MaxValue)
    assert(RunIndex.lengthAtEnd(file).isEmpty && file.takeRight(4).forall(_ == 0))
  }

  test("every damaged byte of an index is noticed, and a wrong length of the file") {
    val file = write(entries(1, 100), 1000)
    val length = RunIndex.lengthAtEnd(file).get
    assert(index(file).exists(_.size > 2))
    for (at <- file.length - length until file.length) {
      val damaged = file.clone
      damaged(at) = (damaged(at) ^ 0x21).toByte
      assert(index(damaged).isEmpty, s"byte $at of ${file.length}, index of $length")
    }
    assert(index(file.drop(1)).isEmpty && index(file :+ 0.toByte).isEmpty)
    (0 to 4).foreach(n => assert(index(file.take(n)).isEmpty))
  }
}
