package org.apache.spark.sql.keystate.checkpoint

import scala.collection.mutable
import scala.util.Try

import org.apache.hadoop.fs.Path
import org.json4s._
import org.json4s.jackson.JsonMethods.parse

import keystate.checkpoint.SourceSegments
import keystate.errors.{
  CheckpointException, ErrorCode, KeystateException, MissingSourceFileException
}
import keystate.version.Manifest

/** The content of a checkpoint, as JSON. */
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

  /** Reads every byte of every kept version and the entries of both logs, and reports versions that
    * are missing, and files that sources go on from.
    */
  def verify(progress: Progress): JValue = {
    val problems = damaged.map(_._2.getMessage).toBuffer
    var versions = 0
    val runs = mutable.Set.empty[String]
    def checking(body: => Unit): Unit =
      try body
      catch {
        case e: KeystateException if e.errorCode == ErrorCode.CorruptFile =>
          problems += e.getMessage
        case e: CheckpointException => problems += e.getMessage
      }
    problems ++= lostOperators.map(_.getMessage)
    // If one is missing, the partitioning of the others is unknown.
    val whole = if (lostOperators.isEmpty) operators else Nil
    if (whole.nonEmpty) checking(problems ++= lostMetadata.map(_.getMessage))
    progress.begin(whole.map(id => Try(stores(id).size * partitionsOf(id).size).getOrElse(0)).sum)
    whole.foreach(id =>
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
          progress.step()
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
    // A damaged entry is already among the problems.
    if (damaged.isEmpty)
      problems ++= NamedSegments.missing(root, conf).map { file =>
        new MissingSourceFileException(s"$file", null).getMessage
      }
    JObject(
      "versions" -> JInt(versions),
      "runs" -> JInt(runs.size),
      "segments" -> JInt(segments.size),
      "problems" -> JArray(
        (problems ++ (if (lostOperators.isEmpty) editedLog else None)).distinct
          .map(JString(_))
          .toList
      )
    )
  }

  /** A file of a driver that began to rescale the query and did not finish. */
  private def editedLog: Option[String] =
    try
      for {
        of <- last
        recorded <- recordedPartitions(of.number) if recorded != of.partitions
      } yield s"Batch ${of.number} was committed with ${of.partitions} partitions, and its entry in the " +
        s"offset log says $recorded partitions: another driver was rescaling the query. The state is " +
        "whole. Start the query again, with any number of partitions, and the entry is corrected."
    catch { case e: KeystateException => Some(e.getMessage) }

  private def last: Option[CommittedBatch] = committed.map(batch)

  private lazy val damaged = damagedEntries

  /** Damaged entries alone are reported, without the parts that can't be checked without them. */
  private def isReadable(batch: Long): Boolean = !damaged.exists(_._1 == batch)

  /** Versions of committed micro-batches that are missing, from the oldest kept version on. */
  private def missing(
      id: Long,
      partition: Int,
      store: String,
      found: Seq[(Long, Option[String])]
  ): Seq[String] = {
    val there = found.map(_._1).toSet
    val oldest = found.headOption.map(_._1).getOrElse(Long.MaxValue)
    committedBatches
      .filter(b => (b + 1 >= oldest || committed.contains(b)) && isReadable(b))
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

  private def partitionsOf(id: Long): Seq[Int] = {
    val there = folders(operatorFolder(id)).flatMap(_.toIntOption)
    val expected = committed.filter(isReadable).map(batch).toSeq.flatMap(0 until partitions(_, id))
    (there ++ expected).distinct.sorted
  }

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
      "max_parallelism" ->
        number(manifests.headOption.map(_._2.partitioning.maxParallelism.toLong)),
      "oldest_version" -> number(kept.minOption),
      "newest_version" -> number(last.map(_.version)),
      "key" -> key(id, manifests.map(_._2)),
      "spark_properties" -> parse(operatorProperties(id)),
      "versions" -> JInt(kept.distinct.size),
      "files" -> JInt(stored.size),
      "bytes" -> JInt(stored.map(_.getLen).sum),
      "states" -> JArray(describe(id, manifests).toList),
      "partitions" -> JArray(manifests.map((partition _).tupled).toList)
    )
  }

  /** JSON of the columns of an operator's key, as text. Null if it has no key, or the columns are
    * unknown.
    */
  private def key(id: Long, manifests: Seq[Manifest]): JValue = {
    val found = for {
      of <- manifests.headOption if record(id).isDefined
      schema <- Try(keySchema(id, of.families)).toOption
    } yield schema.json
    found.fold[JValue](JNull)(JString(_))
  }

  private def describe(id: Long, manifests: Seq[(String, Manifest)]): Seq[JValue] = {
    val families = manifests.flatMap { case (store, manifest) =>
      states(id, manifest).map(family => (store, family.name) -> (family, manifest))
    }
    families.map(_._1).distinct.map { name =>
      val of = families.filter(_._1 == name).map(_._2)
      val family = of.head._1
      val properties = family.properties
      JObject(
        "store" -> JString(name._1),
        "name" -> JString(family.name),
        "kind" -> JString(properties.getOrElse("kind", "")),
        "layout" -> JString(family.layout.name),
        "entries" -> JInt(of.map { case (f, manifest) => manifest.entryCounts(f.id).total }.sum),
        "properties" -> JObject((properties - "kind").toList.sorted.map { case (k, v) =>
          JField(k, JString(v))
        })
      )
    }
  }

  private def partition(store: String, manifest: Manifest): JValue = JObject(
    "store" -> JString(store),
    "partition" -> JInt(manifest.partitioning.partition),
    "groups" -> {
      val groups = manifest.partitioning.groups
      JArray(List(JInt(groups.first), JInt(groups.last)))
    },
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
