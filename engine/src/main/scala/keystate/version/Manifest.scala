package keystate.version

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.node.ObjectNode
import com.fasterxml.jackson.databind.{DeserializationFeature, JsonNode, ObjectMapper}

import keystate.backend.{Layout, StateFamily}
import keystate.keygroup.KeyGroupRange

/** One version of a store's state: the content of a version file, as JSON. Optional fields without
  * content are left out.
  *
  * {{{
  * { "version": 7, "id": "..", "baseId": "..",     ids with checkpoint format v2 only
  *   "maxParallelism": 128, "parallelism": 4,      parallelism only where the operator set it
  *   "partition": 0, "groups": [0, 31],            the key groups this version holds
  *   "rescaledAt": 5,                              the version where another partitioning ended
  *   "mergedAt": 6,                                the version whose runs were all merged into one
  *   "hashPartitions": 4,                          partitions, of Spark's own operators only
  *   "nextFamilyId": 3,
  *   "entryBytes": 96,                             heap bytes of an entry, if measured
  *   "families": [{ "id": 0, "name": "..", "layout": "point", "properties": {..},
  *                  "entries": 1000,               how many, and in each of the groups above and
  *                  "groupEntries": [30, .., 0] }],  in the operator group; left out if all are 0
  *   "runs": [{ "path": "0/7-<uuid>.sst",          left out: inline, in the version file itself
  *              "entries": 10, "bytes": 123, "groups": [3, 17], "crc32c": 305419896,
  *              "version": 7, "id": ".." }] }      the commit whose changes are the newest in it
  * }}}
  *
  * A run's `groups` are the key groups that the version takes from it; its file may hold others
  * too. They can include the operator group. Runs are listed oldest first: of two entries with one
  * key, the later run's entry counts. Paths are relative to the operator's folder, so that a
  * version can use runs of other partitions.
  *
  * @param mergedAt
  *   no run has an entry that was removed up to this version, not even as a removal
  * @param entryBytes
  *   the heap bytes of an entry, as measured by a store of the backend `auto`
  */
final case class Manifest(
    version: Long,
    id: Option[String],
    baseId: Option[String],
    partitioning: Partitioning,
    nextFamilyId: Int,
    families: Seq[StateFamily],
    entryCounts: Map[Int, EntryCounts],
    runs: Seq[Run],
    mergedAt: Option[Long] = None,
    entryBytes: Option[Long] = None
) {

  /** The heap bytes of an entry: measured, or an upper bound from the size of its files, which are
    * compressed.
    */
  def heapBytesPerEntry: Long = entryBytes.getOrElse {
    val stored = runs.map(_.bytes).sum / Math.max(1, runs.map(_.entries).sum)
    Manifest.HeapOverhead + Manifest.Compression * stored
  }

  /** Whether it lists run files of another checkpoint. */
  def isShared: Boolean = runs.exists(_.source match {
    case FileSource(path) => SharedPath.isShared(path)
    case _: InlineSource => false
  })

  /** Whether a run's file is known to have no other groups than the run. It has none if the run was
    * written after the last rescale: a rescale narrows the runs that it takes over.
    */
  def isWhole(run: Run): Boolean = partitioning.rescaledAt.forall(run.version > _)

  /** The run with what this version's own commit changed. None if it changed nothing. */
  def ownRun: Option[Run] = runs.lastOption.filter(run => run.version == version && run.id == id)

  /** The runs with the changes of the version's commit. After a rescale they are the runs of the
    * old partitions.
    */
  def committedRuns: Seq[Run] =
    if (partitioning.rescaledAt.contains(version)) runs.filter(_.version == version)
    else ownRun.toSeq

  /** The number of a family's entries in one of its `ownGroups`; 0 for a family that this version
    * does not have.
    */
  def count(family: Int, group: Int): Long =
    entryCounts.get(family).fold(0L)(_.byGroup(partitioning.indexOf(group)))

  /** The number of entries of all families. */
  def numKeys: Long = entryCounts.valuesIterator.map(_.total).sum
}

/** The number of a family's entries.
  *
  * @param byGroup
  *   the number in each of the partitioning's `ownGroups`
  */
final case class EntryCounts(byGroup: IndexedSeq[Long]) {
  val total: Long = byGroup.sum
}

/** One sorted run of changes.
  *
  * @param entries
  *   how many changes its source has, in all groups
  * @param bytes
  *   how many bytes its source has
  * @param groups
  *   which groups are taken from it, at most
  * @param crc32c
  *   of these bytes
  * @param version
  *   of the newest commit in it; with checkpoint format v2 `id` is that commit's
  */
final case class Run(
    source: RunSource,
    entries: Long,
    bytes: Long,
    groups: KeyGroupRange,
    crc32c: Int,
    version: Long,
    id: Option[String]
) {

  /** The bytes that the run takes in the version file. */
  def inlineBytes: Long = source match {
    case _: InlineSource => bytes
    case _: FileSource => 0
  }
}

/** The place of a run's bytes. */
sealed trait RunSource

/** A run file. Its name is unique, and it never changes.
  *
  * @param path
  *   relative to the operator's folder, or a [[SharedPath]]
  */
final case class FileSource(path: String) extends RunSource

/** In the version file, as a [[keystate.version.PlainRun]]; small. */
final class InlineSource(val content: Array[Byte]) extends RunSource

object Manifest {
  // The maximum heap bytes of an entry besides its key and value.
  private final val HeapOverhead = 100
  // How many times smaller files may be than their entries.
  private final val Compression = 4

  private val mapper = new ObjectMapper()
    .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
    .enable(DeserializationFeature.FAIL_ON_READING_DUP_TREE_KEY)

  /** A version without any state. */
  def empty(version: Long, partitioning: Partitioning): Manifest =
    Manifest(version, None, None, partitioning, 0, Nil, Map.empty, Nil)

  /** The JSON, in UTF-8, without the content of inline runs. */
  def toJson(manifest: Manifest): Array[Byte] = {
    val root = mapper.createObjectNode()
    root.put("version", manifest.version)
    manifest.id.foreach(root.put("id", _))
    manifest.baseId.foreach(root.put("baseId", _))
    val partitioning = manifest.partitioning
    root.put("maxParallelism", partitioning.maxParallelism)
    partitioning.parallelism.foreach(root.put("parallelism", _))
    root.put("partition", partitioning.partition)
    putRange(root, partitioning.groups)
    partitioning.rescaledAt.foreach(root.put("rescaledAt", _))
    partitioning.hashPartitions.foreach(root.put("hashPartitions", _))
    manifest.mergedAt.foreach(root.put("mergedAt", _))
    root.put("nextFamilyId", manifest.nextFamilyId)
    manifest.entryBytes.foreach(root.put("entryBytes", _))
    val families = root.putArray("families")
    manifest.families.foreach { family =>
      val node = families.addObject()
      node.put("id", family.id)
      node.put("name", family.name)
      node.put("layout", family.layout.name)
      val properties = node.putObject("properties")
      family.properties.toSeq.sorted.foreach { case (key, value) => properties.put(key, value) }
      val counts = manifest.entryCounts(family.id)
      node.put("entries", counts.total)
      if (counts.total > 0) {
        val array = node.putArray("groupEntries")
        counts.byGroup.foreach(array.add(_))
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

  /** The manifest in this JSON. Throws if a field is missing or has the wrong type;
    * [[ManifestRules]] checks whether the values are valid.
    *
    * @param nextInline
    *   returns the content of the next inline run, given its length in bytes
    */
  def fromJson(json: Array[Byte], nextInline: Long => Array[Byte]): Manifest = {
    val root = mapper.readTree(json)
    val groups = range(root)
    val families = elements(root, "families")
    Manifest(
      version = long(root, "version"),
      id = text(root, "id"),
      baseId = text(root, "baseId"),
      partitioning = Partitioning(
        maxParallelism = int(root, "maxParallelism"),
        parallelism = Option.when(root.has("parallelism"))(int(root, "parallelism")),
        partition = int(root, "partition"),
        groups = groups,
        rescaledAt = Option.when(root.has("rescaledAt"))(long(root, "rescaledAt")),
        hashPartitions = Option.when(root.has("hashPartitions"))(int(root, "hashPartitions"))
      ),
      nextFamilyId = int(root, "nextFamilyId"),
      families = families.map { node =>
        StateFamily(
          id = int(node, "id"),
          name = requiredText(node, "name"),
          layout = Layout.byName(requiredText(node, "layout")),
          properties = node
            .required("properties")
            .properties
            .asScala
            .map(entry => entry.getKey -> textOf(entry.getValue, entry.getKey))
            .toMap
        )
      },
      entryCounts = families.map(node => int(node, "id") -> entryCounts(node, groups)).toMap,
      runs = elements(root, "runs").map { node =>
        val bytes = long(node, "bytes")
        Run(
          source = text(node, "path") match {
            case Some(path) => FileSource(path)
            case None => new InlineSource(nextInline(bytes))
          },
          entries = long(node, "entries"),
          bytes = bytes,
          groups = range(node),
          crc32c = long(node, "crc32c").toInt,
          version = long(node, "version"),
          id = text(node, "id")
        )
      },
      mergedAt = Option.when(root.has("mergedAt"))(long(root, "mergedAt")),
      entryBytes = Option.when(root.has("entryBytes"))(long(root, "entryBytes"))
    )
  }

  private def entryCounts(node: JsonNode, groups: KeyGroupRange): EntryCounts = {
    val total = long(node, "entries")
    val counts = EntryCounts(
      if (total == 0) Vector.fill(groups.size + 1)(0L)
      else elements(node, "groupEntries").map(number(_, "groupEntries")).toIndexedSeq
    )
    if (counts.total != total)
      throw new IllegalArgumentException(s"$total entries are ${counts.total} in their groups")
    counts
  }

  private def elements(node: JsonNode, field: String): Seq[JsonNode] = {
    val array = node.required(field)
    if (!array.isArray) throw new IllegalArgumentException(s"$field is no array")
    array.values.asScala.toVector
  }

  private def long(node: JsonNode, field: String): Long = number(node.required(field), field)

  private def int(node: JsonNode, field: String): Int = Math.toIntExact(long(node, field))

  /** A whole number; anything else throws, where Jackson would make it 0. */
  private def number(node: JsonNode, field: String): Long =
    if (node.isIntegralNumber && node.canConvertToLong) node.longValue
    else throw new IllegalArgumentException(s"$field is $node")

  private def requiredText(node: JsonNode, field: String): String =
    textOf(node.required(field), field)

  private def textOf(node: JsonNode, field: String): String =
    if (node.isTextual) node.textValue else throw new IllegalArgumentException(s"$field is $node")

  private def text(node: JsonNode, field: String): Option[String] =
    Option(node.get(field)).map(textOf(_, field))

  private def putRange(node: ObjectNode, range: KeyGroupRange): Unit =
    node.putArray("groups").add(range.first).add(range.last): Unit

  private def range(node: JsonNode): KeyGroupRange =
    elements(node, "groups").map(number(_, "groups")) match {
      case Seq(first, last) => KeyGroupRange(Math.toIntExact(first), Math.toIntExact(last))
      case _ => throw new IllegalArgumentException("groups are not two numbers")
    }
}
