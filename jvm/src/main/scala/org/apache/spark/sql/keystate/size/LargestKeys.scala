package org.apache.spark.sql.keystate.size

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.types.StructType
import org.apache.spark.util.Utils

import keystate.checkpoint.StoreReader
import keystate.files.{LocalFolder, StoreLocation}
import org.apache.spark.sql.keystate.files.SparkCheckpointStorage

/** The keys with the most elements in a state of a version. It reads files, so it is called only
  * when the answer is needed. Of large states it reads a part of each partition.
  *
  * @param folder
  *   the operator's folder, in the checkpoint
  */
private[keystate] final class LargestKeys(
    folder: Path,
    keySchema: StructType,
    version: Long,
    partitions: Map[Int, StateSizes],
    conf: Configuration
) {
  import LargestKeys._

  /** The keys as text, each with its number of elements. */
  def of(state: String): Seq[String] = {
    val local = new LocalFolder(() => Utils.createTempDir(namePrefix = "keystate-sizes"))
    try {
      val samples = partitions.keys.toSeq.sorted.flatMap(read(state, _, local))
      samples.sortBy(-_.elements).take(Shown).map(one => s"${one.key} (${one.elements})")
    } finally local.close()
  }

  private def read(state: String, partition: Int, local: LocalFolder): Seq[StateSample.LargeKey] = {
    val location =
      StoreLocation(folder.getName.toLong, partition, StoreLocation.DefaultStore)
    val reader = new StoreReader(location, new SparkCheckpointStorage(folder, conf), local)
    val manifest = reader.manifest(version, partitions(partition).id, partitions.size)
    manifest.families.find(_.name == state).toSeq.flatMap { family =>
      val sample = new StateSample(family, Some(keySchema), 0, 0)
      Using.resource(reader.entries(manifest, family)) {
        _.take(Entries / partitions.size).foreach(sample.add)
      }
      sample.largestKeys
    }
  }
}

private object LargestKeys {
  private final val Shown = 5

  /** How many entries are read. */
  private final val Entries = 1000000
}
