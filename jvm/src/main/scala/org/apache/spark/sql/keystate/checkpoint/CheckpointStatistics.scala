package org.apache.spark.sql.keystate.checkpoint

import scala.util.{Try, Using}

import org.json4s._

import keystate.backend.StateFamily
import keystate.errors.{CheckpointException, KeystateException}
import keystate.keygroup.KeyGroupRange
import keystate.version.{FileSource, Manifest}
import org.apache.spark.sql.keystate.size.{StateSample, UntouchedKeys}
import org.apache.spark.sql.keystate.store.KeystateCodec

/** How a checkpoint's state is spread and how it grew, as JSON, which the page shows next to
  * [[CheckpointReport]]. Counts come from the version files. Statistics of the entries themselves
  * come from a sample, if there are many entries.
  */
private[keystate] final class CheckpointStatistics(
    checkpoint: QueryCheckpoint,
    progress: Progress
) {
  import CheckpointStatistics._
  import checkpoint._

  private val last = batch(lastBatch)
  private val watermark = checkpoint.watermark(lastBatch)
  private val batchTime = checkpoint.beganAt(lastBatch).getOrElse(0L)

  def apply(): JValue = {
    progress.begin(operators.map(id => statesOf(id).size + 1).sum)
    JObject(
      "batch" -> JInt(lastBatch),
      "batch_time" -> JInt(batchTime),
      "watermark" -> JInt(watermark),
      "operators" -> JArray(operators.map(operator).toList)
    )
  }

  private def operator(id: Long): JValue = {
    val manifests = manifestsOf(id, last)
    val kept = chosenVersions(id).flatMap(number => version(id, number).map(number -> _))
    // The first of the chosen versions that is still there.
    val oldest = kept.headOption.fold(last.version) { case (number, _) => batch(number).version }
    progress.step()
    JObject(
      "id" -> JInt(id),
      "history" -> JArray(kept.map(_._2).toList),
      "oldest" -> JInt(oldest - 1),
      "runs" -> JArray(runs(manifests.map(_._2)).toList),
      "states" -> JArray(statesOf(id).map { case (store, family) =>
        val of = manifests.collect { case (in, manifest) if in == store => manifest }
        val told = state(id, store, family, of, oldest)
        progress.step()
        told
      }.toList)
    )
  }

  private def manifestsOf(id: Long, batch: CommittedBatch): Seq[(String, Manifest)] = for {
    store <- stores(id)
    partition <- 0 until partitions(batch, id)
  } yield (store, manifest(batch, id, partition, store))

  /** The states of an operator's first partition; all partitions have the same ones. */
  private def statesOf(id: Long): Seq[(String, StateFamily)] = stores(id).flatMap { store =>
    states(id, manifest(last, id, 0, store)).map(store -> _)
  }

  /** The committed micro-batches whose versions are read: the last ones, or some of them. */
  private def chosenVersions(id: Long): Seq[Long] = {
    val most = Math.max(2, Math.min(Versions, VersionFiles / partitions(last, id)))
    val all = committedBatches
    if (all.size <= most) all
    else (0 until most).map(i => all((i.toLong * (all.size - 1) / (most - 1)).toInt))
  }

  /** None if the version's files are already deleted, or damaged. */
  private def version(id: Long, number: Long): Option[JValue] =
    try {
      val of = batch(number)
      val manifests = manifestsOf(id, of).map(_._2)
      val entries = manifests
        .flatMap { manifest =>
          states(id, manifest).map { family =>
            family.name -> manifest.entryCounts(family.id).total
          }
        }
        .groupMapReduce(_._1)(_._2)(_ + _)
      val runs = manifests.flatMap(_.runs)
      val took = for {
        began <- offsetsWrittenAt.get(number)
        ended <- commitsWrittenAt.get(number)
      } yield ended - began
      Some(
        JObject(
          "batch" -> JInt(number),
          "time" -> json(beganAt(number)),
          "took" -> json(took),
          "entries" -> JObject(entries.toList.sortBy(_._1).map { case (k, n) =>
            JField(k, JInt(n))
          }),
          "bytes" -> JInt(runs.map(_.bytes).sum),
          "runs" -> JInt(runs.size),
          "written" -> JInt(runs.filter(_.version == of.version).map(_.bytes).sum)
        )
      )
    } catch { case _: CheckpointException | _: KeystateException => None }

  /** The runs of the last version, by the commit that is the newest in them. */
  private def runs(manifests: Seq[Manifest]): Seq[JValue] =
    manifests.flatMap(_.runs).groupBy(_.version).toSeq.sortBy(_._1).map { case (version, of) =>
      val files = of.collect { case run if run.source.isInstanceOf[FileSource] => run.source }
      JObject(
        "version" -> JInt(version),
        "files" -> JInt(files.distinct.size),
        "inline" -> JInt(of.size - files.size),
        "bytes" -> JInt(of.map(_.bytes).sum)
      )
    }

  private def state(
      id: Long,
      store: String,
      family: StateFamily,
      manifests: Seq[Manifest],
      oldest: Long
  ): JValue = {
    val total = manifests.flatMap { manifest =>
      familyOf(manifest, family).map(of => manifest.entryCounts(of.id).total)
    }.sum
    JObject(
      "store" -> JString(store),
      "name" -> JString(family.name),
      "kind" -> JString(family.properties.getOrElse("kind", "")),
      "groups" -> groups(family, manifests),
      "sample" -> sample(id, store, family, manifests, oldest, total)
    )
  }

  private def familyOf(manifest: Manifest, family: StateFamily): Option[StateFamily] =
    manifest.families.find(_.name == family.name)

  /** The number of entries in each key group. */
  private def groups(family: StateFamily, manifests: Seq[Manifest]): JValue = {
    val counts = for {
      manifest <- manifests
      group <- manifest.partitioning.groups.first to manifest.partitioning.groups.last
    } yield JInt(familyOf(manifest, family).fold(0L)(of => manifest.count(of.id, group)))
    JArray(counts.toList)
  }

  /** Looks at whole key groups of partitions that are spread evenly. */
  private def sample(
      id: Long,
      store: String,
      family: StateFamily,
      manifests: Seq[Manifest],
      oldest: Long,
      total: Long
  ): JValue = {
    val untouched =
      Option.when(KeystateCodec.owns(family) && oldest < last.version)(new UntouchedKeys)
    val found = new StateSample(
      family,
      keySchema(id, manifests.head.families),
      watermark,
      batchTime,
      untouched
    )
    val share = if (total > SampledEntries) SampledEntries.toDouble / total else 1.0
    val step = if (share < 1) Math.max(1, manifests.size / SampledPartitions) else 1
    val chosen = manifests.indices.by(step).map(manifests)
    val most =
      if (total <= SampledEntries) Int.MaxValue
      else Math.max(1, 2 * SampledEntries / Math.max(1, chosen.size))
    for (manifest <- chosen; own <- familyOf(manifest, family)) {
      val all = manifest.partitioning.groups
      val wanted = Math.max(1, Math.ceil(all.size * share * step).toInt)
      val range = KeyGroupRange(all.first, Math.min(all.last, all.first + wanted - 1))
      val from = reader(id, manifest.partitioning.partition, store)
      for (keys <- untouched)
        Using.resource(from.changesSince(oldest, manifest, own, range))(
          _.foreach(change => keys.write(StateSample.keyOf(own, change.key)))
        )
      Using.resource(from.entries(manifest, own, range))(_.take(most).foreach(found.add))
    }
    found.toJson(total)
  }

  private def keySchema(id: Long, families: Seq[StateFamily]) =
    if (record(id).isEmpty) None
    else Try(checkpoint.keySchema(id, families)).toOption

  private def json(number: Option[Long]): JValue = number.fold[JValue](JNull)(JInt(_))
}

private[keystate] object CheckpointStatistics {
  private val Versions = 40

  /** How many version files of an operator are read at most for its history. */
  private val VersionFiles = 2000

  /** About how many entries of a state are read, and in how many partitions. */
  private val SampledEntries = 300000
  private val SampledPartitions = 32
}
