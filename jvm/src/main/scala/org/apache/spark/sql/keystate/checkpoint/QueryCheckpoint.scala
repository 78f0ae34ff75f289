package org.apache.spark.sql.keystate.checkpoint

import java.io.{File, FileNotFoundException, IOException}
import java.nio.file.Files
import java.util.concurrent.ConcurrentHashMap

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import org.json4s.jackson.JsonMethods.parse
import org.json4s.{JArray, JNothing, JString, JValue}

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.types.StructType

import keystate.backend.StateFamily
import keystate.checkpoint.StoreReader
import keystate.errors.{DamagedFileException, KeystateErrors, KeystateException}
import keystate.files.{Concurrently, LocalFolder, StoreLocation}
import keystate.version.{Manifest, PinnedVersions}
import org.apache.spark.sql.keystate.files.{
  CheckpointFiles, CheckpointOwner, QueryLogs, SparkCheckpointStorage, SparkFiles
}
import org.apache.spark.sql.keystate.metadata.{
  CheckpointOperators, OperatorRecord, SparkStoreMetadata
}
import org.apache.spark.sql.keystate.rescale.CommittedPartitions
import org.apache.spark.sql.keystate.shim.LogEntries
import org.apache.spark.sql.keystate.spec.SystemColumnFamilies

/** A query's checkpoint as it is on storage: its last committed micro-batch, and where the state
  * after it is.
  */
private[keystate] final class QueryCheckpoint(val conf: Configuration, val location: String)
    extends AutoCloseable {
  val root = new Path(location)
  val files: CheckpointFileManager = CheckpointFiles.create(root, conf)
  CheckpointOwner.checkFinished(root, files)
  if (!files.exists(new Path(root, "commits"))) throw KeystateErrors.noCheckpoint(location)

  private val commits = QueryLogs.commits(conf, root)
  private val offsets = QueryLogs.offsets(conf, root)

  private val entries = new ConcurrentHashMap[Long, LogEntries.Offsets]

  /** The offset log's entry of a micro-batch; a found entry is not read again. */
  private def begun(batch: Long): Option[LogEntries.Offsets] =
    Option(entries.get(batch)).orElse {
      val found = offsets.get(batch)
      found.foreach(entries.put(batch, _))
      found
    }

  private val scratch =
    new LocalFolder(() => Files.createTempDirectory("keystate").toFile: File)

  /** The micro-batches in the commit log when this was opened, ascending. */
  val committedBatches: Seq[Long] = commits.batches

  /** The last committed micro-batch. None if there is none. */
  val committed: Option[Long] = committedBatches.lastOption

  /** The micro-batch that was started after `committed`. None if there is none. */
  val pending: Option[Long] =
    offsets.batches.lastOption.filter(batch => committed.forall(_ < batch))

  /** The errors of the entries of both logs that can't be read, with their micro-batches. */
  def damagedEntries: Seq[(Long, KeystateException)] = commits.damaged ++ offsets.damaged

  def lastBatch: Long = committed.getOrElse(throw KeystateErrors.nothingCommitted(location))

  def batch(number: Long): CommittedBatch = {
    val commit =
      commits.get(number).getOrElse(throw KeystateErrors.noBatch(number, location))
    val ids = commit.stateUniqueIds.getOrElse(Map.empty).map { case (operator, of) =>
      operator -> of.toSeq.map(_.toSeq)
    }
    checkIds(number, ids)
    if (ids.isEmpty && !hasOffsets(number)) throw KeystateErrors.noBatch(number, location)
    val recorded = recordedPartitions(number).orElse(ids.values.map(_.length).maxOption)
    CommittedBatch(number, committedPartitions.of(number, commit, recorded), ids)
  }

  /** Checks the ids, because they become parts of file names. */
  private def checkIds(batch: Long, ids: Map[Long, Seq[Seq[String]]]): Unit =
    ids.foreach { case (operator, of) =>
      if (of.map(_.size).distinct.size > 1 || !of.flatten.forall(StoreReader.isId))
        throw new DamagedFileException(
          new Path(root, s"commits/$batch").toString,
          s"operator $operator has ids there that Keystate would not have given"
        )
    }

  /** The number of partitions that the offset log has for a micro-batch. */
  def recordedPartitions(batch: Long): Option[Int] =
    begun(batch).flatMap(offsets.partitions(batch, _))

  /** Whether a micro-batch was started, and its entry still exists. */
  def hasOffsets(batch: Long): Boolean = begun(batch).isDefined

  /** The position in a source at a micro-batch's end, as JSON. None if sources have names. */
  def offsetOf(batch: Long, source: Int): Option[String] =
    begun(batch).flatMap(LogEntries.offset(_, source)).map(_.json)

  /** When the micro-batch began that this one is, in ms since the epoch, by its own clock. */
  def beganAt(batch: Long): Option[Long] =
    begun(batch).flatMap(LogEntries.metadata).map(_.batchTimestampMs)

  /** The watermark that a micro-batch began with, in ms since the epoch: by it timers fire. 0 if
    * there is none yet.
    */
  def beganWith(batch: Long): Option[Long] =
    begun(batch).flatMap(LogEntries.metadata).map(_.batchWatermarkMs)

  /** The watermark after a micro-batch, in ms since the epoch. */
  def watermark(batch: Long): Long = commits.get(batch).fold(0L)(_.nextBatchWatermarkMs)

  /** When the files of micro-batches were written in the offset log, and in the commit log. */
  def offsetsWrittenAt: Map[Long, Long] = offsets.writtenAt
  def commitsWrittenAt: Map[Long, Long] = commits.writtenAt

  private lazy val committedPartitions = new CommittedPartitions(
    operators,
    record(_).isDefined,
    unpartitioned,
    operator => (known.storage(operator), stores(operator))
  )

  private val known = new CheckpointOperators(conf, root)

  /** The stateful operators that there were at the first look, as with their records. */
  lazy val operators: Seq[Long] = known.all

  /** Errors for operators whose folders or records are lost, or for the file that names them. */
  def lostOperators: Seq[KeystateException] =
    try known.lost
    catch { case e: KeystateException => Seq(e) }

  /** Errors for operators whose Spark metadata is lost, and for lost files with the schemas of
    * states. No query starts without the files that the newest metadata names.
    */
  def lostMetadata: Seq[KeystateException] = {
    val found = operators.map(operator => operator -> metadataFile(operator))
    val lost = found.collect { case (operator, None) if committed.nonEmpty => operator }
    val schemas = for {
      (operator, Some(metadata)) <- found
      (_, JArray(named)) <- json(metadata).filterField(_._1 == "stateSchemaFilePaths")
      JString(path) <- named
      file = SparkStoreMetadata.schemaFile(path, operator, operatorFolder(operator).getParent)
      if !files.exists(file)
    } yield file
    (lost.map(metadataFolder) ++ schemas).map(path => KeystateErrors.fileGone(s"$path", location))
  }

  /** The number of partitions of an operator's state after a micro-batch. */
  def partitions(batch: CommittedBatch, operator: Long): Int =
    if (unpartitioned(operator)) 1 else batch.partitions

  private lazy val unpartitioned: Set[Long] =
    if (operators.forall(record(_).isDefined)) Set.empty
    else
      known
        .sparkStores(committed)
        .collect {
          case (operator, stores) if CheckpointOperators.isUnpartitioned(stores) => operator
        }
        .toSet

  def operatorFolder(operator: Long): Path = known.folder(operator)

  def record(operator: Long): Option[OperatorRecord] = records.get(operator).flatten

  private lazy val records: Map[Long, Option[OperatorRecord]] =
    operators.zip(Concurrently.map(operators)(known.record)).toMap

  /** The user's name of an operator, or else Spark's. Empty if Spark's operator metadata is missing.
    */
  def operatorName(operator: Long): String =
    record(operator).flatMap(_.name).getOrElse(sparkName(operator))

  private def sparkName(operator: Long): String =
    metadata(operator) \ "operatorInfo" \ "operatorName" match {
      case JString(name) => name
      case _ => ""
    }

  /** Spark's properties of an operator, as JSON: its time mode among them. */
  def operatorProperties(operator: Long): String =
    metadata(operator) \ "operatorPropertiesJson" match {
      case JString(properties) => properties
      case _ => "{}"
    }

  /** Spark's newest metadata of an operator. */
  private def metadata(operator: Long): JValue =
    metadataFile(operator).fold[JValue](JNothing)(json)

  private def metadataFile(operator: Long): Option[Path] = {
    val metadata = metadataFolder(operator)
    // Metadata version 2 has a file for each micro-batch, version 1 has one file.
    val folder = new Path(metadata, "v2")
    val latest =
      if (!files.exists(folder)) None
      else files.list(folder).flatMap(_.getPath.getName.toLongOption).maxOption
    val file = latest.fold(new Path(metadata, "metadata"))(batch => new Path(folder, s"$batch"))
    Option.when(files.exists(file))(file)
  }

  private def metadataFolder(operator: Long): Path =
    new Path(operatorFolder(operator), "_metadata")

  /** The JSON in the second line of a file of one of Spark's metadata logs. */
  private def json(file: Path): JValue = SparkFiles.reading(file) {
    Using.resource(files.open(file)) { in =>
      new String(in.readAllBytes(), "UTF-8").linesIterator
        .drop(1)
        .toSeq
        .headOption
        .fold[JValue](JNothing)(parse(_))
    }
  }

  /** The columns of an operator's key. Throws if the operator has none, or is one of Spark's.
    *
    * @param families
    *   all that the operator has in a version
    */
  def keySchema(operator: Long, families: Seq[StateFamily]): StructType = SystemColumnFamilies
    .keyOf(families)
    .getOrElse(throw KeystateErrors.noSchema(s"${operatorFolder(operator)}"))

  /** The versions of an operator's state that its first partition keeps, ascending. Others may keep
    * fewer: each cleans up when it has enough to delete.
    */
  def keptVersions(operator: Long): Seq[Long] = {
    val oldest = storedVersions(operator, 0).minOption.getOrElse(Long.MaxValue)
    committedBatches.map(_ + 1).filter(_ >= oldest)
  }

  /** The versions that a partition has files of. */
  def storedVersions(operator: Long, partition: Int): Set[Long] =
    reader(operator, partition, StoreLocation.DefaultStore).versions().map(_._1).toSet

  def storage(folder: Path): SparkCheckpointStorage = new SparkCheckpointStorage(folder, conf)

  /** The names of an operator's stores: Keystate's operators have one, Spark's joins several. */
  def stores(operator: Long): Seq[String] =
    if (record(operator).isDefined) Seq(StoreLocation.DefaultStore)
    else {
      val partition = new Path(operatorFolder(operator), "0")
      val named = folders(partition).filterNot(_.startsWith("_")) // the others are Spark's metadata
      if (named.isEmpty) Seq(StoreLocation.DefaultStore) else named.sorted
    }

  def reader(operator: Long, partition: Int, store: String): StoreReader =
    new StoreReader(StoreLocation(operator, partition, store), known.storage(operator), scratch)

  /** Keeps a version of a store from clean-up, as long as [[PinnedVersions]] says. None where
    * nothing can be written: there no query runs either.
    */
  def pin(location: StoreLocation, version: Long): Option[PinnedVersions.Pin] =
    try Some(new PinnedVersions.Pin(known.storage(location.operator), location, version))
    catch { case _: IOException => None }

  /** The id of a store's version after a micro-batch. If format v2 has several ids, the one with a
    * file.
    */
  def idOf(batch: CommittedBatch, operator: Long, partition: Int, store: String): Option[String] = {
    val ids = batch.ids.get(operator).flatMap(_.lift(partition)).getOrElse(Nil)
    if (ids.size < 2) ids.headOption
    else {
      val there = reader(operator, partition, store).versions().toSet
      ids.find(id => there((batch.number + 1, Some(id))))
    }
  }

  def manifest(batch: CommittedBatch, operator: Long, partition: Int, store: String): Manifest =
    reader(operator, partition, store)
      .manifest(batch.number + 1, idOf(batch, operator, partition, store), batch.partitions)

  /** The states of a version. The family that Spark makes in each store, and that Keystate leaves
    * empty, is left out.
    */
  def states(operator: Long, manifest: Manifest): Seq[StateFamily] =
    if (record(operator).isEmpty) manifest.families
    else manifest.families.filterNot(_.properties.get("kind").contains("spark"))

  /** All files below a folder. */
  def filesBelow(folder: Path): Seq[FileStatus] =
    try {
      val (folders, plain) = files.list(folder).toSeq.partition(_.isDirectory)
      plain ++ Concurrently.map(folders.map(_.getPath))(filesBelow).flatten
    } catch { case _: FileNotFoundException => Nil }

  def folders(folder: Path): Seq[String] =
    if (!files.exists(folder)) Nil
    else files.list(folder).toSeq.filter(_.isDirectory).map(_.getPath.getName)

  override def close(): Unit = scratch.close()
}

/** A micro-batch in the commit log.
  *
  * @param partitions
  *   the number of partitions of the state after it, except for operators without keys
  * @param ids
  *   with checkpoint format v2, the ids of the versions after it, by operator, partition and store
  */
private[keystate] final case class CommittedBatch(
    number: Long,
    partitions: Int,
    ids: Map[Long, Seq[Seq[String]]]
) {
  def version: Long = number + 1
}
