package keystate.faults

import java.io.{File, IOException}
import java.net.URI

import org.apache.hadoop.fs._
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.util.Progressable

/** The local disk as `fault:///path`, where things go wrong as a [[FaultPlan]] says, whose folder is
  * the Hadoop setting `fs.fault.plan`.
  *
  * How it renames is the setting `fs.fault.rename`: `replace` puts the new file in the place of an
  * old one, atomically; `refuse` returns false if there is an old one; `copy` writes the bytes
  * anew, with a step `copying` half way, as object stores do.
  *
  * It has no `AbstractFileSystem`, so Spark's checkpoints go through
  * `FileSystemBasedCheckpointFileManager`.
  */
class FaultFileSystem extends RawLocalFileSystem {
  import FaultFileSystem._

  private lazy val plan = new FaultPlan(new File(getConf.get(Plan)))

  override def getUri: URI = Root
  override def getScheme: String = Scheme

  // What its siblings come to.
  override def create(
      path: Path,
      overwrite: Boolean,
      bufferSize: Int,
      replication: Short,
      blockSize: Long,
      progress: Progressable
  ): FSDataOutputStream = step("create", path) {
    watched(path, super.create(path, overwrite, bufferSize, replication, blockSize, progress))
  }

  override def open(path: Path, bufferSize: Int): FSDataInputStream =
    step("open", path)(super.open(path, bufferSize))

  override def delete(path: Path, recursive: Boolean): Boolean =
    step("delete", path)(super.delete(path, recursive))

  override def listStatus(path: Path): Array[FileStatus] =
    step("list", path)(super.listStatus(path))

  override def getFileStatus(path: Path): FileStatus =
    step("status", path)(super.getFileStatus(path))

  override def mkdirs(path: Path, permission: FsPermission): Boolean =
    step("mkdirs", path)(super.mkdirs(path, permission))

  /** The steps `rename`, before, and `renamed`, after, are those of the new name. */
  override def rename(source: Path, target: Path): Boolean =
    plan.at("rename", target.toUri.getPath) != FaultPlan.ReturnFalse && {
      val done = getConf.get(Rename, "replace") match {
        case "replace" => super.rename(source, target)
        case "refuse" => !pathToFile(target).exists && super.rename(source, target)
        case "copy" => copy(source, target)
      }
      plan.at("renamed", target.toUri.getPath)
      done
    }

  private def copy(source: Path, target: Path): Boolean = {
    val bytes = java.nio.file.Files.readAllBytes(pathToFile(source).toPath)
    val out = new java.io.FileOutputStream(pathToFile(target))
    try {
      out.write(bytes, 0, bytes.length / 2)
      plan.at("copying", target.toUri.getPath)
      out.write(bytes, bytes.length / 2, bytes.length - bytes.length / 2)
    } finally out.close()
    pathToFile(source).delete()
  }

  private def watched(path: Path, out: FSDataOutputStream): FSDataOutputStream =
    new FSDataOutputStream(out, null) {
      private val name = finalName(path)
      override def write(b: Int): Unit = write(Array(b.toByte), 0, 1)
      override def write(bytes: Array[Byte], offset: Int, length: Int): Unit = {
        val room = plan.roomFor(name, getPos, length)
        super.write(bytes, offset, room)
        if (room < length) {
          plan.at("write", name)
          super.write(bytes, offset + room, length - room)
        }
      }
      override def close(): Unit = {
        plan.at("close", name)
        super.close()
      }
    }

  private def step[T](step: String, path: Path)(body: => T): T = {
    plan.at(step, finalName(path))
    body
  }
}

object FaultFileSystem {
  final val Scheme = "fault"
  final val Plan = "fs.fault.plan"
  final val Rename = "fs.fault.rename"
  private val Root = URI.create("fault:///")
  private val Temporary = """(.*/)\.([^/]+)\.[0-9a-f-]{36}(?:\.TID\d+)?\.tmp""".r

  /** The Hadoop settings. With the rename `objects` it is an [[ObjectFileSystem]]. */
  def settings(plan: FaultPlan, rename: String = "replace"): Map[String, String] = Map(
    "fs.fault.impl" -> (
      if (rename == "objects") classOf[ObjectFileSystem] else classOf[FaultFileSystem]
    ).getName,
    "fs.fault.impl.disable.cache" -> "true",
    Plan -> plan.folder.getPath,
    Rename -> rename
  )

  /** The name that Spark will rename a temporary file to. */
  private def finalName(path: Path): String = path.toUri.getPath match {
    case Temporary(folder, name) => folder + name
    case other => other
  }
}

/** A fault that was planned. */
final class InjectedFault(message: String) extends IOException(message)
