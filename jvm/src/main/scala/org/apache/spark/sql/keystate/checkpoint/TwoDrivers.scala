package org.apache.spark.sql.keystate.checkpoint

import org.apache.hadoop.fs.Path
import org.json4s.JInt
import org.json4s.jackson.JsonMethods.parse

import keystate.checkpoint.{SegmentName, SourceSegments}
import keystate.errors.CheckpointException
import keystate.version.Manifest

/** Finds the traces of two drivers on one checkpoint: things there that do not fit together. This
  * release keeps two drivers apart, or mends what they did at a restart. Earlier releases could go
  * on with a part of the state.
  */
private[keystate] final class TwoDrivers(checkpoint: QueryCheckpoint) {
  import TwoDrivers._
  import checkpoint._

  def problems(): Seq[String] =
    committed.toSeq.flatMap(editedLog) ++ partialRescales() ++ replacedSegments()

  private def editedLog(number: Long): Option[String] = {
    val committed = batch(number).partitions
    recordedPartitions(number).filter(_ != committed).map { recorded =>
      s"Batch $number was committed with $committed partitions, and its entry in the offset log says " +
        s"$recorded partitions: another driver was rescaling the query. The state is whole. Start the query " +
        "again, with any number of partitions, and the entry is corrected."
    }
  }

  /** With checkpoint format v1 a version can have files for several numbers of partitions, made
    * from each other. All of them must have the same keys.
    */
  private def partialRescales(): Seq[String] = for {
    operator <- operators
    store <- stores(operator)
    (version, counts) <- countsByPartitioning(operator, store).toSeq.sortBy(_._1)
    all = counts.maxBy(_.entries)
    some <- counts
    if some.entries < all.entries
  } yield s"Version $version of operator $operator, store $store, has ${all.entries} entries in " +
    s"${all.name} and ${some.entries} in ${some.name}: an earlier release rescaled a part of the " +
    "state, after two drivers had run on the checkpoint. What the query counted since then misses the " +
    s"rest. Go on from a copy or savepoint of before batch $version, or do the input again with a new " +
    "checkpoint."

  /** The counts of each version that is complete in several numbers of partitions. */
  private def countsByPartitioning(operator: Long, store: String): Map[Long, Seq[Count]] = {
    val files = for {
      partition <- folders(operatorFolder(operator)).flatMap(_.toIntOption)
      in = reader(operator, partition, store)
      (version, name) <- in.versions()
    } yield (version, name, in)
    files
      .groupBy(_._1)
      .view
      .mapValues(_.groupBy(_._2))
      .filter { case (_, partitionings) =>
        partitionings.size > 1 && partitionings.keys.forall(_.forall(isPartitioning))
      }
      .mapValues(_.toSeq.flatMap { case (name, of) =>
        count(of.map { case (version, _, in) => () => in.stored(version, name) })
          .map(Count(nameOf(name), _))
      })
      .filter(_._2.size > 1)
      .toMap
  }

  private def nameOf(partitioning: Option[String]): String =
    partitioning.fold("the files of the first number of partitions")(name =>
      s"those of ${name.stripPrefix("of")} partitions"
    )

  private def isPartitioning(name: String) = name.matches("of\\d+")

  /** The number of entries. None if a partition's file is missing or damaged, which is reported
    * elsewhere, or if a file does not tell its counts. States with a time to live are not counted,
    * because an expired entry may be there or not. Broadcast state is not counted, because each
    * partition has a copy.
    */
  private def count(read: Seq[() => Manifest]): Option[Long] =
    try {
      val manifests = read.map(_())
      val byGroup = for {
        manifest <- manifests
        family <- manifest.families
        if !family.properties.keys.exists(_.startsWith("ttl"))
        group <- manifest.partitioning.groups.first to manifest.partitioning.groups.last
      } yield manifest.count(family.id, group)
      val areAll = manifests.forall(_.partitioning.partitions.contains(manifests.size))
      Option.when(areAll && byGroup.forall(_.isDefined))(byGroup.flatten.sum)
    } catch { case _: CheckpointException => None }

  /** A source's file must be older than the entry of Spark's log that names it. */
  private def replacedSegments(): Seq[String] = for {
    folder <- folders(new Path(root, "sources")).flatMap(_.toIntOption).sorted
    log = new SourceSegments(storage(new Path(root, s"sources/$folder")))
    name <- log.list()
    recorded <- recordedAt(folder, name)
    written <- written(log, name)
    if written > recorded
  } yield s"The source's file sources/$folder/${name.file} was written after the offset log named " +
    "it: another driver replaced it, by an earlier release. The batch had other rows than are in it " +
    "now, and rows may have come twice. Compare the output with the source, or do it again from a savepoint."

  private def written(log: SourceSegments, name: SegmentName): Option[Long] =
    try
      parse(new String(log.read(name).header, "UTF-8")) \ "time" match {
        case JInt(time) => Some(time.toLong)
        case _ => None
      }
    catch { case _: CheckpointException => None }
}

private object TwoDrivers {
  private final case class Count(name: String, entries: Long)
}
