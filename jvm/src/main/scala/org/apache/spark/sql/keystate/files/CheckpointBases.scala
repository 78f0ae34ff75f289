package org.apache.spark.sql.keystate.files

import java.io.FileNotFoundException

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.json4s.JsonDSL._
import org.json4s.{DefaultFormats, Formats}

import keystate.checkpoint.StoreReader
import keystate.errors.DamagedFileException

/** The checkpoints whose run files another one lists, in the other one's folder `_keystate/bases`: a
  * file for each, with the name that is in the paths of these files ([[keystate.version.SharedPath]]).
  */
private[keystate] object CheckpointBases {
  private implicit val formats: Formats = DefaultFormats

  /** @param checkpoint
    *   its path, with its scheme
    * @param reference
    *   the id of the references there that keep the files. None if references of another base keep
    *   them: a savepoint of a savepoint keeps the first one, which keeps the checkpoint it came
    *   from
    */
  final case class Base(checkpoint: String, reference: Option[String])

  def all(checkpoint: Path, conf: Configuration): Map[String, Base] = {
    val files = CheckpointFiles.create(checkpoint, conf)
    val names =
      try
        if (files.exists(folder(checkpoint))) files.list(folder(checkpoint)).toSeq
        else Nil
      catch { case _: FileNotFoundException => Nil }
    names.map(_.getPath.getName).map(id => id -> read(checkpoint, id, conf)).toMap
  }

  /** Throws FileNotFoundException where there is none of this name. */
  def read(checkpoint: Path, id: String, conf: Configuration): Base = {
    val path = new Path(folder(checkpoint), id)
    val base = CheckpointFiles
      .readJson(CheckpointFiles.create(checkpoint, conf), path)(_.extract[Base])
      .getOrElse(throw new FileNotFoundException(s"$path"))
    if (!base.reference.forall(StoreReader.isId))
      throw new DamagedFileException(s"$path", "its reference is none that Keystate writes")
    base
  }

  def write(checkpoint: Path, id: String, base: Base, conf: Configuration): Unit = {
    val files = CheckpointFiles.create(checkpoint, conf)
    files.mkdirs(folder(checkpoint))
    val fields = ("checkpoint" -> base.checkpoint) ~ ("reference" -> base.reference)
    val file = new Path(folder(checkpoint), id)
    CheckpointFiles.writeJson(files, file, fields, overwriteIfPossible = true)
  }

  private def folder(checkpoint: Path) = new Path(checkpoint, "_keystate/bases")
}
