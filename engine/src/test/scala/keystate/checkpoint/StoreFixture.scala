package keystate.checkpoint

import java.io.File
import java.nio.ByteBuffer
import java.nio.file.Files
import java.util.UUID

import scala.collection.mutable

import keystate.backend.heap.HeapStateBackendFactory
import keystate.backend.{Layout, StateBackendFactory}
import keystate.files.{CheckpointStorage, LocalFolder, StoreLocation}

/** A store in memory, for tests of checkpoints. The state it works on is a point family `p` and a
  * grouped family `g`, of which the key is always `k`.
  */
trait StoreFixture {
  type Content = Map[(String, Int, String), String]

  protected def backends: StateBackendFactory = new HeapStateBackendFactory

  protected val location: StoreLocation = StoreLocation(0, 3, StoreLocation.DefaultStore)
  private val scratchFolders = mutable.Buffer.empty[File]

  protected def newStore(
      storage: CheckpointStorage,
      settings: StoreSettings = StoreSettings(),
      at: StoreLocation = location
  ): VersionedStore = new VersionedStore(at, storage, settings, backends, newLocalFolder())

  def newLocalFolder(): LocalFolder = new LocalFolder(() => {
    val folder = Files.createTempDirectory("keystate-test").toFile
    scratchFolders.synchronized(scratchFolders += folder)
    folder
  })

  /** Files that stores left behind after they were closed. */
  protected def leftBehind: Seq[File] =
    scratchFolders.synchronized(scratchFolders.toSeq).filter(_.exists)

  protected def withStore[T](storage: CheckpointStorage, settings: StoreSettings = StoreSettings())(
      body: VersionedStore => T
  ): T = {
    val store = newStore(storage, settings)
    try body(store)
    finally store.close()
  }

  protected def register(store: VersionedStore): Unit = {
    store.registerFamily("p", Layout.Point, Map("kind" -> "value"))
    store.registerFamily("g", Layout.Grouped, Map("kind" -> "map"))
    ()
  }

  protected def bytes(text: String): Array[Byte] = text.getBytes("UTF-8")

  protected def entryKey(family: String, key: String): Array[Byte] =
    if (family == "p") bytes(key)
    else ByteBuffer.allocate(5 + key.length).putInt(1).put(bytes("k")).put(bytes(key)).array

  /** Puts, or removes where the value is null. */
  protected def change(
      store: VersionedStore,
      family: String,
      group: Int,
      key: String,
      value: String
  ): Unit = {
    val id = store.family(family).get.id
    if (value == null) store.backend.remove(id, group, entryKey(family, key))
    else store.backend.put(id, group, entryKey(family, key), bytes(value))
  }

  protected def content(store: VersionedStore): Content = {
    for {
      family <- store.families.iterator
      group <- Iterator.range(0, store.maxParallelism)
      entry <- store.backend.scan(family.id, group, null, null)
    } yield {
      val key = if (family.name == "p") entry.key else entry.key.drop(5)
      (family.name, group, new String(key, "UTF-8")) -> new String(entry.value, "UTF-8")
    }
  }.toMap

  protected def rescale(
      storage: CheckpointStorage,
      version: Long,
      ids: Seq[Option[String]],
      parallelism: Int
  ): Seq[Option[String]] = {
    val local = newLocalFolder()
    val renamed =
      try
        Rescaling.run(
          storage,
          0,
          StoreLocation.DefaultStore,
          version,
          ids,
          parallelism,
          () => newId().get,
          local
        )
      finally local.close()
    if (ids.head.isEmpty) Seq.fill(parallelism)(None) else renamed
  }

  protected def newId(): Option[String] = Some(UUID.randomUUID.toString)

  /** Incompressible, so that its run is not inline. */
  protected def large(seed: Long, length: Int = 100000): String = {
    val random = new scala.util.Random(seed)
    Seq.fill(length)(random.nextPrintableChar()).mkString
  }
}
