package keystate.checkpoint

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import com.fasterxml.jackson.databind.node.ObjectNode

import keystate.backend.{Layout, StateFamily}
import keystate.keygroup.{KeyGroupRange, KeyGroups}

/** What makes up one version of a store's state: the content of a version file, as JSON.
  *
  * {{{
  * { "version": 7, "id": "..", "baseId": "..",     ids with checkpoint format v2 only
  *   "maxParallelism": 128, "parallelism": 4,      parallelism only where the operator said it
  *   "partition": 0, "groups": [0, 31],            the key groups this version holds
  *   "rescaledAt": 5,                              where another layout ended; after a rescale only
  *   "hashPartitions": 4,                          the number of partitions of Spark's own operators
  *   "numKeys": 1000, "nextFamilyId": 3,
  *   "families": [{ "id": 0, "name": "..", "layout": "point", "properties": {..},
  *                  "entries": 1000,               how many, and in each of the groups above and
  *                  "groupEntries": [30, .., 0] }],  in the operator group; none if unknown
  *   "runs": [{ "path": "0/7-<uuid>.sst",          none: inline, in the version file itself
  *              "entries": 10, "bytes": 123, "groups": [3, 17], "crc32c": 305419896,
  *              "version": 7, "id": ".." }] }      the commit whose changes are the newest in it
  * }}}
  *
  * A run's `groups` say which key groups are taken from it; its file may hold others too. They can
  * reach to the operator group. Runs are
  * listed oldest first: of two entries with one key, the later run's counts. Paths are
  * relative to the operator's folder, so that a version can use runs of other partitions.
  */
final case class Manifest(
    version: Long,
    id: Option[String],
    baseId: Option[String],
    maxParallelism: Int,
    parallelism: Option[Int],
    partition: Int,
    groups: KeyGroupRange,
    rescaledAt: Option[Long] = None,
    hashPartitions: Option[Int] = None,
    numKeys: Long,
    nextFamilyId: Int,
    families: Seq[StateFamily],
    entryCounts: Map[Int, EntryCounts],
    runs: Seq[Run]
) {

  /** In how many partitions the state is, if that is known. */
  def layout: Option[Int] = parallelism.orElse(hashPartitions)

  /** The groups that are read of its runs: its key groups and the operator group. A run has none in
    * between: what a rescale takes from another partition is listed by key groups and operator group
    * apart.
    */
  def readGroups: KeyGroupRange =
    KeyGroupRange(groups.first, KeyGroups.operatorGroup(maxParallelism))

  /** The same without what is between them. */
  def ownGroups: IndexedSeq[Int] =
    (groups.first to groups.last) :+ KeyGroups.operatorGroup(maxParallelism)

  /** Whether a run's file is known to have no other groups than the run: a rescale narrows those that
    * it takes over.
    */
  def isWhole(run: Run): Boolean = rescaledAt.forall(run.version > _)

  /** How many entries a family has in one of its own groups, if that is known. */
  def count(family: Int, group: Int): Option[Long] =
    if (!families.exists(_.id == family)) Some(0)
    else
      for {
        counts <- entryCounts.get(family)
        byGroup <- counts.byGroup
      } yield byGroup(if (groups.contains(group)) group - groups.first else groups.size)
}

/** How many entries a family has.
  *
  * @param byGroup
  *   in each of the manifest's `ownGroups`; files of before this was recorded have only the total
  */
final case class EntryCounts(total: Long, byGroup: Option[IndexedSeq[Long]])

object EntryCounts {
  def of(byGroup: IndexedSeq[Long]): EntryCounts = EntryCounts(byGroup.sum, Some(byGroup))
}

/** One sorted run of changes. */
final case class Run(
    source: RunSource,
    entries: Long,
    bytes: Long,
    groups: KeyGroupRange,
    crc32c: Int,
    version: Long,
    id: Option[String]
) {
  def inlineBytes: Long = source match {
    case _: InlineSource => bytes
    case _: FileSource => 0
  }
}

sealed trait RunSource

/** An SST file of its own. Its name is unique, and it never changes. */
final case class FileSource(path: String) extends RunSource

/** In the version file; small. */
final class InlineSource(val content: Array[Byte]) extends RunSource

object Manifest {
  private val mapper = new ObjectMapper

  def toJson(manifest: Manifest): Array[Byte] = {
    val root = mapper.createObjectNode()
    root.put("version", manifest.version)
    manifest.id.foreach(root.put("id", _))
    manifest.baseId.foreach(root.put("baseId", _))
    root.put("maxParallelism", manifest.maxParallelism)
    manifest.parallelism.foreach(root.put("parallelism", _))
    root.put("partition", manifest.partition)
    putRange(root, manifest.groups)
    manifest.rescaledAt.foreach(root.put("rescaledAt", _))
    manifest.hashPartitions.foreach(root.put("hashPartitions", _))
    root.put("numKeys", manifest.numKeys)
    root.put("nextFamilyId", manifest.nextFamilyId)
    val families = root.putArray("families")
    manifest.families.foreach { family =>
      val node = families.addObject()
      node.put("id", family.id)
      node.put("name", family.name)
      node.put("layout", family.layout.name)
      val properties = node.putObject("properties")
      family.properties.toSeq.sorted.foreach { case (key, value) => properties.put(key, value) }
      manifest.entryCounts.get(family.id).foreach { counts =>
        node.put("entries", counts.total)
        counts.byGroup.filter(_ => counts.total > 0).foreach { byGroup =>
          val array = node.putArray("groupEntries")
          byGroup.foreach(array.add(_))
        }
      }
    }
    val runs = root.putArray("runs")
    manifest.runs.foreach { run =>
      val node = runs.addObject()
      run.source match {
        case FileSource(path) => node.put("path", path)
        case _: InlineSource =>
      }
      node.put("entries", run.entries)
      node.put("bytes", run.bytes)
      putRange(node, run.groups)
      node.put("crc32c", run.crc32c & 0xffffffffL)
      node.put("version", run.version)
      run.id.foreach(node.put("id", _))
    }
    mapper.writeValueAsBytes(root)
  }

  /** @param nextInline
    *   gives the content of the inline runs, one after the other, by their length
    */
  def fromJson(json: Array[Byte], nextInline: Int => Array[Byte]): Manifest = {
    val root = mapper.readTree(json)
    val groups = range(root)
    Manifest(
      version = root.required("version").asLong,
      id = text(root, "id"),
      baseId = text(root, "baseId"),
      maxParallelism = root.required("maxParallelism").asInt,
      parallelism = Option(root.get("parallelism")).map(_.asInt),
      partition = root.required("partition").asInt,
      groups = groups,
      rescaledAt = Option(root.get("rescaledAt")).map(_.asLong),
      hashPartitions = Option(root.get("hashPartitions")).map(_.asInt),
      numKeys = root.required("numKeys").asLong,
      nextFamilyId = root.required("nextFamilyId").asInt,
      families = root
        .required("families")
        .asScala
        .map { node =>
          StateFamily(
            id = node.required("id").asInt,
            name = node.required("name").asText,
            layout = Layout.byName(node.required("layout").asText),
            properties = node
              .required("properties")
              .properties
              .asScala
              .map(entry => entry.getKey -> entry.getValue.asText)
              .toMap
          )
        }
        .toSeq,
      entryCounts = root
        .required("families")
        .asScala
        .filter(_.has("entries"))
        .map(node => node.required("id").asInt -> entryCounts(node, groups))
        .toMap,
      runs = root
        .required("runs")
        .asScala
        .map { node =>
          val bytes = node.required("bytes").asLong
          Run(
            source = text(node, "path") match {
              case Some(path) => FileSource(path)
              case None => new InlineSource(nextInline(Math.toIntExact(bytes)))
            },
            entries = node.required("entries").asLong,
            bytes = bytes,
            groups = range(node),
            crc32c = node.required("crc32c").asLong.toInt,
            version = node.required("version").asLong,
            id = text(node, "id")
          )
        }
        .toSeq
    )
  }

  private def entryCounts(node: JsonNode, groups: KeyGroupRange): EntryCounts = {
    val total = node.required("entries").asLong
    val byGroup = node.path("groupEntries").values.asScala.map(_.asLong).toIndexedSeq
    if (total == 0) EntryCounts.of(IndexedSeq.fill(groups.size + 1)(0L))
    else EntryCounts(total, Option.when(byGroup.nonEmpty)(byGroup))
  }

  private def text(node: JsonNode, field: String): Option[String] =
    Option(node.get(field)).map(_.asText)

  private def putRange(node: ObjectNode, range: KeyGroupRange): Unit = {
    node.putArray("groups").add(range.first).add(range.last)
    ()
  }

  private def range(node: JsonNode): KeyGroupRange = {
    val groups = node.required("groups")
    KeyGroupRange(groups.required(0).asInt, groups.required(1).asInt)
  }
}
