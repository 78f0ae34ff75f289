package org.apache.spark.sql.keystate

import scala.collection.mutable

import org.apache.hadoop.fs.Path
import org.json4s._
import org.json4s.jackson.JsonMethods.parse

import keystate.backend.Layout
import keystate.checkpoint._

/** What is in a checkpoint, as JSON. */
private[keystate] final class CheckpointReport(checkpoint: QueryCheckpoint) {
  import checkpoint._

  def inspect(): JValue = JObject(
    "checkpoint" -> JString(location),
    "batch" -> number(committed),
    "pending" -> number(pending),
    "partitions" -> number(last.map(_.partitions.toLong)),
    "format" -> JInt(if (last.exists(_.ids.nonEmpty)) 2 else 1),
    "operators" -> JArray(operators.map(operator).toList),
    "sources" -> JArray(sources().toList)
  )

  /** Reads every byte of every version that is kept, and looks for those that should be. */
  def verify(): JValue = {
    val problems = mutable.Buffer.empty[String]
    var versions = 0
    val runs = mutable.Set.empty[String]
    def checking(body: => Unit): Unit =
      try body
      catch { case e: CheckpointException => problems += e.getMessage }
    operators.foreach(id =>
      checking {
        for (store <- stores(id); partition <- partitionsOf(id)) {
          val files = reader(id, partition, store)
          val read = mutable.Set.empty[String]
          val found = files.versions()
          found.foreach { case (version, name) =>
            versions += 1
            problems ++= files.verify(version, name, read).map(_.getMessage)
          }
          runs ++= read.map(path => s"$id/$path")
          checking(problems ++= missing(id, partition, store, found))
        }
      }
    )
    val segments = sourceFolders().flatMap { folder =>
      val log = segmentsOf(folder)
      log.list().map(name => (log, name))
    }
    segments.foreach { case (log, name) =>
      checking(log.read(name).chunks.foreach(log.rows))
    }
    JObject(
      "versions" -> JInt(versions),
      "runs" -> JInt(runs.size),
      "segments" -> JInt(segments.size),
      "problems" -> JArray(
        (problems ++ twoDrivers()).distinct.map(JString(_)).toList
      )
    )
  }

  private def twoDrivers(): Seq[String] =
    try new TwoDrivers(checkpoint).problems()
    catch { case e @ (_: CheckpointException | _: KeystateException) => Seq(e.getMessage) }

  private def last: Option[CommittedBatch] = committed.map(batch)

  /** Versions of committed batches that are not there, from the oldest one kept on. */
  private def missing(
      id: Long,
      partition: Int,
      store: String,
      found: Seq[(Long, Option[String])]
  ): Seq[String] = {
    val there = found.map(_._1).toSet
    val oldest = found.headOption.map(_._1).getOrElse(Long.MaxValue)
    committedBatches
      .filter(b => b + 1 >= oldest || committed.contains(b))
      .map(batch)
      .filter(partitions(_, id) > partition)
      .filterNot(b =>
        there(b.version) && idOf(b, id, partition, store).forall { name =>
          found.contains((b.version, Some(name)))
        }
      )
      .map { b =>
        reader(id, partition, store).missing(b.version, idOf(b, id, partition, store)).getMessage
      }
  }

  private def partitionsOf(id: Long): Seq[Int] =
    (folders(operatorFolder(id)).flatMap(_.toIntOption) ++ last.toSeq.flatMap(
      0 until partitions(_, id)
    )).distinct.sorted

  private def operator(id: Long): JValue = {
    val manifests = for {
      b <- last.toSeq
      store <- stores(id)
      partition <- 0 until partitions(b, id)
    } yield (store, manifest(b, id, partition, store))
    val kept = for {
      store <- stores(id)
      partition <- partitionsOf(id)
      version <- reader(id, partition, store).versions()
    } yield version._1
    val stored = filesBelow(operatorFolder(id))
    JObject(
      "id" -> JInt(id),
      "name" -> JString(operatorName(id)),
      "keystate" -> JBool(record(id).isDefined),
      "max_parallelism" -> number(manifests.headOption.map(_._2.maxParallelism.toLong)),
      "oldest_version" -> number(kept.minOption),
      "newest_version" -> number(last.map(_.version)),
      "versions" -> JInt(kept.distinct.size),
      "files" -> JInt(stored.size),
      "bytes" -> JInt(stored.map(_.getLen).sum),
      "states" -> JArray(describe(id, manifests).toList),
      "partitions" -> JArray(manifests.map((partition _).tupled).toList)
    )
  }

  private def describe(id: Long, manifests: Seq[(String, Manifest)]): Seq[JValue] = {
    val families = manifests.flatMap { case (store, manifest) =>
      states(id, manifest).map(family => (store, family.name) -> (family, manifest))
    }
    families.map(_._1).distinct.map { name =>
      val of = families.filter(_._1 == name).map(_._2)
      val family = of.head._1
      val counts = of.map { case (f, manifest) => manifest.entryCounts.get(f.id).map(_.total) }
      val properties = family.properties
      JObject(
        "store" -> JString(name._1),
        "name" -> JString(family.name),
        "kind" -> JString(properties.getOrElse("kind", "")),
        "layout" -> JString(family.layout.name),
        "entries" -> (if (counts.forall(_.isDefined)) JInt(counts.flatten.sum) else JNull),
        "properties" -> JObject(
          (properties - "kind").toList.sorted.map { case (k, v) => JField(k, JString(v)) }
        )
      )
    }
  }

  private def partition(store: String, manifest: Manifest): JValue = JObject(
    "store" -> JString(store),
    "partition" -> JInt(manifest.partition),
    "groups" -> JArray(List(JInt(manifest.groups.first), JInt(manifest.groups.last))),
    "entries" -> JInt(manifest.numKeys),
    "runs" -> JInt(manifest.runs.size),
    "bytes" -> JInt(manifest.runs.map(_.bytes).sum),
    "id" -> manifest.id.fold[JValue](JNull)(JString(_))
  )

  private def sourceFolders(): Seq[Path] =
    folders(new Path(root, "sources")).sorted
      .map(name => new Path(root, s"sources/$name"))
      .filter(folder => segmentsOf(folder).list().nonEmpty)

  private def segmentsOf(folder: Path) = new SourceSegments(checkpoint.storage(folder))

  private def sources(): Seq[JValue] = sourceFolders().map { folder =>
    val newest = segmentsOf(folder).list().last
    val header = parse(new String(segmentsOf(folder).read(newest).header, "UTF-8"))
    val states = (header \ "states").children.collect { case JObject(fields) => fields }.flatten
    val elements = states.groupBy(_._1).map { case (name, of) =>
      JField(name, JInt(of.map(_._2.children.size).sum))
    }
    JObject(
      "folder" -> JString(folder.getName),
      "name" -> header \ "source",
      "batch" -> JInt(newest.batch),
      "parallelism" -> header \ "parallelism",
      "state_elements" -> JObject(elements.toList.sortBy(_._1))
    )
  }

  private def number(value: Option[Long]): JValue = value.fold[JValue](JNull)(JInt(_))
}

/** How the keys of the states differ between the last committed batches of two checkpoints. */
private[keystate] object CheckpointDifference {
  def apply(before: QueryCheckpoint, after: QueryCheckpoint): JValue = {
    val names = (before.operators ++ after.operators).distinct.sorted
    JArray(names.flatMap(operator => of(before, after, operator)).toList)
  }

  private def of(
      before: QueryCheckpoint,
      after: QueryCheckpoint,
      operator: Long
  ): Seq[JValue] = {
    val sides = Seq(before, after).map(new Side(_, operator))
    val groups = sides.flatMap(_.maxParallelism).distinct
    if (groups.size > 1) throw KeystateErrors.cannotCompare(operator, groups)
    sides.flatMap(_.states).distinct.map { case (store, name) =>
      val layouts = sides.flatMap(_.layout(store, name)).distinct
      val entries = sides.map(_.entries(store, name))
      try {
        val counts =
          if (layouts.size > 1) None
          else Some(KeyDifference.of(entries(0), entries(1), keyOf(layouts.head)))
        JObject(
          "operator" -> JInt(operator),
          "store" -> JString(store),
          "state" -> JString(name),
          "added" -> count(counts)(_.added),
          "removed" -> count(counts)(_.removed),
          "changed" -> count(counts)(_.changed),
          "same" -> count(counts)(_.same)
        )
      } finally entries.foreach(_.close())
    }
  }

  private def count(counts: Option[KeyDifference])(get: KeyDifference => Long): JValue =
    counts.fold[JValue](JNull)(c => JInt(get(c)))

  private def keyOf(layout: Layout): Array[Byte] => Array[Byte] =
    if (layout == Layout.Grouped) { key =>
      val length = java.nio.ByteBuffer.wrap(key).getInt
      java.util.Arrays.copyOf(key, 4 + length)
    } else identity

  /** An operator in one of the two checkpoints; it may not be there. */
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

    def maxParallelism: Option[Int] = manifests.values.flatten.headOption.map(_.maxParallelism)

    def states: Seq[(String, String)] = manifests.toSeq.sortBy(_._1).flatMap { case (store, of) =>
      of.flatMap(checkpoint.states(operator, _).map(family => (store, family.name))).distinct
    }

    def layout(store: String, name: String): Option[Layout] =
      of(store).flatMap(_.families.find(_.name == name)).headOption.map(_.layout)

    /** Of all partitions; their groups ascend. */
    def entries(
        store: String,
        name: String
    ): Iterator[keystate.backend.Change] with AutoCloseable = {
      val cursors = for {
        manifest <- of(store)
        family <- manifest.families.find(_.name == name)
      } yield checkpoint
        .reader(operator, manifest.partition, store)
        .entries(manifest, family)
      val all = cursors.iterator.flatten
      new Iterator[keystate.backend.Change] with AutoCloseable {
        override def hasNext: Boolean = all.hasNext
        override def next(): keystate.backend.Change = all.next()
        override def close(): Unit = cursors.foreach(_.close())
      }
    }

    private def of(store: String): Seq[Manifest] = manifests.getOrElse(store, Nil)
  }
}
