package org.apache.spark.sql.keystate.checkpoint

import org.json4s._

import keystate.backend.{Change, Expiry, GroupedKey, Layout, StateFamily}
import keystate.checkpoint.KeyDifference
import keystate.errors.KeystateErrors
import keystate.version.Manifest

/** How the keys of the states differ between two checkpoints, each after its last committed
  * micro-batch.
  */
private[keystate] object CheckpointDifference {

  /** Operators of the same number are compared. */
  def apply(before: QueryCheckpoint, after: QueryCheckpoint): JValue = {
    val numbers = (before.operators ++ after.operators).distinct.sorted
    apply(before, after, numbers.map(number => number -> number))
  }

  /** These operators are compared: each by its numbers before and after. */
  def apply(before: QueryCheckpoint, after: QueryCheckpoint, operators: Seq[(Long, Long)]): JValue =
    JArray(operators.flatMap { case (was, is) =>
      of(is, Seq(new Side(before, was), new Side(after, is)))
    }.toList)

  private def of(operator: Long, sides: Seq[Side]): Seq[JValue] = {
    val groups = sides.flatMap(_.maxParallelism).distinct
    if (groups.size > 1) throw KeystateErrors.cannotCompare(operator, groups)
    sides.flatMap(_.states).distinct.map { case (store, name) =>
      val layouts = sides.flatMap(_.layouts(store, name)).distinct
      val entries = sides.map(_.entries(store, name))
      try {
        val compared = entries.map(_.map { case (family, of) =>
          ListElements.in(family, unexpired(family, of))
        })
        val counts =
          if (layouts.size > 1) None
          else Some(KeyDifference.of(compared(0), compared(1), keyOf(layouts.head)))
        JObject(
          "operator" -> JInt(operator),
          "store" -> JString(store),
          "state" -> JString(name),
          "added" -> count(counts)(_.added),
          "removed" -> count(counts)(_.removed),
          "changed" -> count(counts)(_.changed),
          "same" -> count(counts)(_.same)
        )
      } finally entries.flatten.foreach { case (_, of) => of.close() }
    }
  }

  /** The entries that have not expired by the clock of their version. When the others are removed
    * depends on partitions and merges.
    */
  private def unexpired(family: StateFamily, entries: Iterator[Change]): Iterator[Change] = {
    val isExpired = Expiry.inVersion(family.properties)
    entries.filterNot(entry => isExpired(entry.value))
  }

  private def count(counts: Option[KeyDifference])(get: KeyDifference => Long): JValue =
    counts.fold[JValue](JNull)(c => JInt(get(c)))

  private def keyOf(layout: Layout): Array[Byte] => Array[Byte] =
    if (layout == Layout.Grouped) GroupedKey.prefixOf else identity

  /** An operator in one of the two checkpoints. The checkpoint may lack the operator. */
  private final class Side(checkpoint: QueryCheckpoint, operator: Long) {
    private val batch = checkpoint.batch(checkpoint.lastBatch)
    private val manifests: Map[String, Seq[Manifest]] =
      if (!checkpoint.operators.contains(operator)) Map.empty
      else
        checkpoint
          .stores(operator)
          .map { store =>
            store -> (0 until checkpoint.partitions(batch, operator))
              .map(checkpoint.manifest(batch, operator, _, store))
          }
          .toMap

    def maxParallelism: Option[Int] =
      manifests.values.flatten.headOption.map(_.partitioning.maxParallelism)

    def states: Seq[(String, String)] = manifests.toSeq.sortBy(_._1).flatMap { case (store, of) =>
      of.flatMap(checkpoint.states(operator, _).map(family => (store, family.name))).distinct
    }

    def layouts(store: String, name: String): Seq[Layout] =
      of(store).flatMap(_.families.find(_.name == name)).map(_.layout).distinct

    /** The entries of each partition, and the state as that describes it. */
    def entries(
        store: String,
        name: String
    ): Seq[(StateFamily, Iterator[Change] with AutoCloseable)] = for {
      manifest <- of(store)
      family <- manifest.families.find(_.name == name)
      reader = checkpoint.reader(operator, manifest.partitioning.partition, store)
    } yield family -> reader.entries(manifest, family)

    private def of(store: String): Seq[Manifest] = manifests.getOrElse(store, Nil)
  }
}
