package org.apache.spark.sql.keystate

import java.nio.charset.StandardCharsets.UTF_8
import java.util.UUID

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileUtil, Path}

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import keystate.checkpoint.StoreReader

/** A copy of a checkpoint as it was after its last committed batch, which needs nothing of the
  * checkpoint. It is written next to its place and then renamed, so it appears whole where the file
  * system renames a folder at once.
  */
private[keystate] final class Savepoint(
    checkpoint: QueryCheckpoint,
    target: Path,
    conf: Configuration
) {
  private val fs = target.getFileSystem(conf)
  private val draft = new Path(target.getParent, s".${target.getName}.${UUID.randomUUID}")

  /** Returns the batch that it holds. */
  def write(): Long = {
    if (fs.exists(target) && fs.listStatus(target).nonEmpty)
      throw KeystateErrors.savepointExists(target.toString)
    val batch = checkpoint.batch(checkpoint.lastBatch)
    try {
      copy(files(batch))
      metadata().foreach { case (name, content) => put(name, content) }
      fs.delete(target, true) // if it is there, it is empty
      if (!fs.rename(draft, target)) throw KeystateErrors.savepointExists(target.toString)
    } finally {
      fs.delete(draft, true)
      ()
    }
    batch.number
  }

  /** Relative to the checkpoint. */
  private def files(batch: CommittedBatch): Seq[String] = {
    val state = for {
      operator <- checkpoint.operators
      store <- checkpoint.stores(operator)
      partition <- 0 until batch.partitions
      reader = checkpoint.reader(operator, partition, store)
      id = checkpoint.idOf(batch, operator, partition, store)
      manifest = reader.manifest(batch.version, id, batch.partitions)
      file <- reader.versionFile(batch.version, id, batch.partitions) +: StoreReader.files(manifest)
    } yield s"state/$operator/$file"
    val records = checkpoint.operators.flatMap { operator =>
      below(s"state/$operator/_keystate") ++ below(s"state/$operator/_stateSchema")
    }
    // Spark reads the entry before the last one too. A batch that was only begun is left behind.
    val logs = Seq("offsets", "commits").flatMap { log =>
      Seq(batch.number - 1, batch.number).map(number => s"$log/$number")
    }
    val there = (logs :+ "metadata").filter(file => checkpoint.files.exists(path(file)))
    (state ++ records ++ below("sources") ++ there).distinct
  }

  private def below(folder: String): Seq[String] =
    checkpoint.filesBelow(path(folder)).map { status =>
      path("").toUri.relativize(status.getPath.toUri).getPath
    }

  /** Spark's operator metadata names the files of the state's schema with the checkpoint's place. */
  private def metadata(): Seq[(String, String)] =
    checkpoint.operators.flatMap(operator => below(s"state/$operator/_metadata")).map { name =>
      val text = Using.resource(checkpoint.files.open(path(name))) { in =>
        new String(in.readAllBytes(), UTF_8)
      }
      name -> text.replace(s"${path("state")}/", s"${new Path(target, "state")}/")
    }

  private def copy(names: Seq[String]): Unit = names.foreach { name =>
    val from = path(name)
    FileUtil.copy(from.getFileSystem(conf), from, fs, new Path(draft, name), false, conf)
  }

  private def put(name: String, content: String): Unit = {
    val file = new Path(draft, name)
    val files = CheckpointFileManager.create(file.getParent, conf)
    files.mkdirs(file.getParent)
    Using.resource(files.createAtomic(file, overwriteIfPossible = true)) { out =>
      out.write(content.getBytes(UTF_8))
    }
  }

  private def path(name: String): Path =
    if (name.isEmpty) checkpoint.root else new Path(checkpoint.root, name)
}
