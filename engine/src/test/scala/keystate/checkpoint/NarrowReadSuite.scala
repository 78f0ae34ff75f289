package keystate.checkpoint

import org.scalatest.funsuite.AnyFunSuite

import keystate.errors.{CorruptFileException, MissingRunException}
import keystate.files.StoreLocation
import keystate.version.SectionedRun

/** A store reads of a run file what it takes from it. */
class NarrowReadSuite extends AnyFunSuite with StoreFixture {
  private val maxParallelism = 64
  private val none = Option.empty[String]

  private def open(storage: MemoryStorage, partition: Int, parallelism: Int, section: Int) =
    newStore(
      storage,
      StoreSettings(Some(maxParallelism), Some(parallelism), sectionBytes = section),
      StoreLocation(0, partition, StoreLocation.DefaultStore)
    )

  private val entries: Content = {
    for {
      family <- Seq("p", "g")
      group <- 0 until maxParallelism
      number <- 0 until 10
    } yield (family, group, s"$number") -> large(group * 10L + number, 1000)
  }.toMap

  /** One run file with everything, of about 1 MB. */
  private def written(section: Int): MemoryStorage = {
    val storage = new MemoryStorage
    val store = open(storage, 0, 1, section)
    try {
      store.load(0, None)
      register(store)
      entries.foreach { case ((family, group, key), value) =>
        change(store, family, group, key, value)
      }
      change(store, "p", maxParallelism, "rule", "of the subtask")
      store.commit(None)
    } finally store.close()
    assert(storage.runs.size == 1)
    storage
  }

  private def loaded(storage: MemoryStorage, partition: Int, parallelism: Int): Content = {
    val store = open(storage, partition, parallelism, SectionedRun.SectionBytes)
    try {
      store.load(1, None)
      register(store)
      content(store)
    } finally store.close()
  }

  /** How many bytes of run files each of eight partitions reads. */
  private def readByEight(storage: MemoryStorage): Seq[Long] = {
    rescale(storage, 1, Seq(none), 8)
    (0 until 8).map { partition =>
      val before = storage.runBytesRead.get
      val own = loaded(storage, partition, 8)
      assert(own == entries.filter { case ((_, group, _), _) => group / 8 == partition })
      storage.runBytesRead.get - before
    }
  }

  test("after a rescale to eight partitions each reads about an eighth of a run file") {
    val storage = written(section = 8000)
    val file = storage(storage.runs.head).length
    val read = readByEight(storage)
    info(s"$read of $file")
    // The file's end for its index, and at each border a section with groups of two partitions; in
    // the first partition also that of the operator group.
    val slack = 2 * 16 * 1024 + 5 * 16000
    assert(read.forall(bytes => bytes > file / 8 && bytes < file / 8 + slack))
    assert(read.sum < 2 * file)
  }

  test("a restart as it was reads each file once, without its index") {
    val storage = written(section = 8000)
    assert(loaded(storage, 0, 1) == entries)
    assert(storage.runBytesRead.get == storage(storage.runs.head).length)
  }

  test("a file of one section, which has no index, is read whole") {
    val storage = written(section = Int.MaxValue)
    val file = storage(storage.runs.head).length
    assert(readByEight(storage).drop(1).forall(bytes => bytes >= file))
  }

  test("an index longer than what is read for it at first") {
    val storage = new MemoryStorage
    val groups = 3000
    def settings(parallelism: Int) =
      StoreSettings(Some(groups), Some(parallelism), sectionBytes = 1)
    val store = newStore(storage, settings(1), location.copy(partition = 0))
    try {
      store.load(0, None)
      register(store)
      (0 until groups).foreach(group => change(store, "p", group, "a", large(group.toLong, 50)))
      store.commit(None)
    } finally store.close()
    rescale(storage, 1, Seq(none), groups)
    val last = newStore(storage, settings(groups), location.copy(partition = groups - 1))
    try {
      last.load(1, None)
      assert(content(last) == Map(("p", groups - 1, "a") -> large(groups - 1L, 50)))
      assert(storage.runBytesRead.get < storage(storage.runs.head).length / 2)
    } finally last.close()
  }

  test("a reader of one state reads its sections, also when it has none") {
    val storage = written(section = 8000)
    val local = newLocalFolder()
    try {
      val reader = new StoreReader(location.copy(partition = 0), storage, local)
      val manifest = reader.manifest(1, None, 1)
      def keys(family: keystate.backend.StateFamily) = {
        val found = reader.entries(manifest, family)
        try found.size
        finally found.close()
      }
      assert(manifest.families.map(keys) == Seq(entries.size / 2, entries.size / 2))
      val file = storage(storage.runs.head).length
      assert(storage.runBytesRead.get < file + file / 4)
      assert(keys(manifest.families.head.copy(id = 7)) == 0)
      assert(storage.runBytesRead.get < file + file / 4)
    } finally local.close()
    assert(leftBehind.isEmpty)
  }

  test("one key is found in the section of its group") {
    val storage = written(section = 8000)
    val local = newLocalFolder()
    try {
      val reader = new StoreReader(location.copy(partition = 0), storage, local)
      val manifest = reader.manifest(1, None, 1)
      val family = manifest.families.find(_.name == "p").get
      def find(from: String, until: String) =
        reader
          .find(manifest, family, 40, bytes(from), bytes(until))
          .map(found => new String(found.key, "UTF-8"))
      assert(find("3", "4") == Seq("3"))
      val read = storage.runBytesRead.get
      // The file's end for its index, and a section or two.
      assert(read < 16 * 1024 + 3 * 16000, s"$read of ${storage(storage.runs.head).length}")
      assert(find("3", "6") == Seq("3", "4", "5"))
      assert(find("30", "4") == Nil)
      assert(reader.find(manifest, family.copy(id = 7), 40, bytes("3"), bytes("4")) == Nil)
    } finally local.close()
    assert(leftBehind.isEmpty)
  }

  test("a file that has nothing of what is wanted") {
    val storage = new MemoryStorage
    val store = open(storage, 0, 1, section = 8000)
    try {
      store.load(0, None)
      register(store)
      (8 until 40).foreach(group => change(store, "g", group, "a", large(group.toLong, 4000)))
      store.commit(None)
    } finally store.close()
    val local = newLocalFolder()
    try {
      val reader = new StoreReader(location.copy(partition = 0), storage, local)
      val manifest = reader.manifest(1, None, 1)
      val found = reader.entries(manifest, manifest.families.find(_.name == "p").get)
      try assert(found.isEmpty)
      finally found.close()
    } finally local.close()
    // Of all that the file has, the first two partitions and the last four take nothing.
    rescale(storage, 1, Seq(none), 16)
    val read = (0 until 16).map(loaded(storage, _, 16).size)
    assert(read == (0 until 16).map(partition => if (partition >= 2 && partition < 10) 4 else 0))
    assert(leftBehind.isEmpty)
  }

  test("damage in what is read is noticed, and the file named") {
    val storage = written(section = 8000)
    rescale(storage, 1, Seq(none), 8)
    val path = storage.runs.head
    val good = storage(path)
    def complaint(): String = intercept[CorruptFileException](loaded(storage, 3, 8)).getMessage

    def seesDamageAt(at: Int): Boolean = {
      storage.damage(path) { bytes =>
        bytes(at) = (bytes(at) ^ 0x40).toByte
        bytes
      }
      try {
        loaded(storage, 3, 8)
        false
      } catch {
        case e: CorruptFileException =>
          assert(e.file == storage.describe(path) && e.getMessage.contains("checksum"))
          true
      } finally storage.damage(path)(_ => good.clone)
    }
    // Partition 3 owns groups 24 to 31 of 64, in the first half of the file and in the second.
    val seen = (0 until 16).map(i => seesDamageAt(good.length * (2 * i + 1) / 32))
    assert(seen == (0 until 16).map(i => i % 8 == 3))
    assert(seesDamageAt(good.length - 1) && seesDamageAt(good.length - 30))

    storage.damage(path)(_.dropRight(1))
    assert(complaint().contains(s"${good.length - 1} bytes instead of ${good.length}"))
    storage.damage(path)(_.take(2))
    assert(complaint().contains("2 bytes instead of"))
    storage.delete(path)
    val missing = intercept[MissingRunException](loaded(storage, 3, 8))
    assert(missing.file == storage.describe(path))
    assert(leftBehind.isEmpty)
  }
}
