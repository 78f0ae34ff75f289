package keystate.backend.rocksdb

import java.io.{File, IOException}
import java.nio.file.Files
import java.util.UUID

import scala.collection.immutable.ListMap

import keystate.errors.LocalStorageException

/** The files of a new, empty RocksDB database. Opening a copy of them takes half the time of making
  * a database: RocksDB writes several files that it replaces soon after, and waits for the disk for
  * each.
  */
private[rocksdb] object EmptyDatabase {
  private final val Current = "CURRENT"

  // The files' contents by name, from the first database that this JVM made; empty before that.
  @volatile private var files = ListMap.empty[String, Array[Byte]]

  /** Puts a copy into an empty folder, if there was a database to learn it from. */
  def copyTo(folder: File): Unit = if (files.nonEmpty) {
    def write(name: String, content: Array[Byte]): Unit = {
      val file = new File(folder, name)
      try Files.write(file.toPath, content)
      catch { case e: IOException => throw new LocalStorageException(file, e) }
      ()
    }
    files.foreach { case (name, content) => write(name, content) }
    write("IDENTITY", UUID.randomUUID.toString.getBytes)
  }

  /** Remembers the files of a database that was just made with a single column family. */
  def learnFrom(folder: File): Unit = if (files.isEmpty) {
    val current = Files.readAllBytes(new File(folder, Current).toPath)
    val manifest = new String(current).trim
    files =
      ListMap(manifest -> Files.readAllBytes(new File(folder, manifest).toPath), Current -> current)
  }
}
