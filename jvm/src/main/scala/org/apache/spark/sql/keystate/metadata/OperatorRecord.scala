package org.apache.spark.sql.keystate.metadata

import java.nio.charset.StandardCharsets.UTF_8
import java.util.{Map => JMap}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileAlreadyExistsException, Path}
import org.json4s.JsonDSL._
import org.json4s.jackson.JsonMethods
import org.json4s.{DefaultFormats, Formats, JObject}

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.internal.SQLConf

import keystate.config.Settings
import keystate.errors.{DamagedFileException, KeystateErrors}
import keystate.files.Crc32c
import keystate.keygroup.KeyGroups
import org.apache.spark.sql.keystate.files.CheckpointFiles
import org.apache.spark.sql.keystate.metrics.Recent
import org.apache.spark.sql.keystate.spec.OperatorSpec
import org.apache.spark.sql.keystate.store.StoreConfig

/** The checkpoint's lasting record of one keyed operator. The file is
  * `<state>/<operator>/_keystate/operator`, with the JSON
  * `{"format": 1, "maxParallelism": K, "name": S, "crc32c": N}`. It is written before the
  * operator's first micro-batch, and again only when the operator gets another name. The checksum
  * covers the JSON without the field `crc32c`.
  *
  * @param name
  *   the user's name of the operator, by which it is found if it changes places
  */
private[keystate] final case class OperatorRecord(
    maxParallelism: Int,
    name: Option[String] = None
) {
  def checkParallelism(partitions: Int): Unit =
    if (partitions > maxParallelism)
      throw KeystateErrors.parallelismTooHigh(partitions, maxParallelism)
}

private[keystate] object OperatorRecord {
  private implicit val formats: Formats = DefaultFormats
  private val Checksum = "crc32c"
  private val KeptInMemory = 1000

  /** The location in plans that Spark makes of a stream only to explain them. */
  private val NoCheckpoint = "<unknown>"

  /** Records that were read, by run, operator and wanted max parallelism. Spark plans an operator
    * again for each micro-batch, but a record is read once in a query's run.
    */
  private val known: JMap[(String, Long, Option[Int]), OperatorRecord] =
    Recent.map(KeptInMemory)

  /** The max parallelism that the operator or the session asks for. */
  def wanted(spec: OperatorSpec, conf: SQLConf): Option[Int] = {
    val wanted = spec.maxParallelism.orElse(Settings.MaxParallelism.in(StoreConfig.in(conf)))
    wanted.foreach(KeyGroups.checkMaxParallelism)
    wanted
  }

  /** The checkpoint's record. If this is the operator's first micro-batch, it is written now. */
  def resolve(
      info: StatefulOperatorStateInfo,
      spec: OperatorSpec,
      session: SparkSession
  ): OperatorRecord = {
    val wanted = this.wanted(spec, session.sessionState.conf)
    if (info.checkpointLocation == NoCheckpoint)
      OperatorRecord(wanted.getOrElse(default(info)))
    else {
      val location = s"${info.checkpointLocation}/${info.operatorId}"
      val record = known.computeIfAbsent(
        (s"${info.queryRunId}$location", info.operatorId, wanted),
        _ =>
          readOrWrite(
            new Path(location), {
              val fresh = OperatorRecord(wanted.getOrElse(default(info)), spec.name)
              check(fresh, wanted, info, location)
              fresh
            },
            session.sessionState.newHadoopConf()
          )
      )
      check(record, wanted, info, location)
      record
    }
  }

  /** Gives the operator of a query that starts again the name that it has now. */
  def rename(
      info: StatefulOperatorStateInfo,
      name: Option[String],
      hadoopConf: Configuration
  ): Unit = {
    val operator = new Path(info.checkpointLocation, info.operatorId.toString)
    for (now <- name if info.storeVersion > 0; record <- read(operator, hadoopConf))
      if (!record.name.contains(now))
        write(operator, record.copy(name = Some(now)), hadoopConf, replace = true)
  }

  private def default(info: StatefulOperatorStateInfo): Int =
    KeyGroups.defaultMaxParallelism(info.numPartitions)

  private def check(
      record: OperatorRecord,
      wanted: Option[Int],
      info: StatefulOperatorStateInfo,
      location: String
  ): Unit = {
    wanted.filter(_ != record.maxParallelism).foreach { other =>
      throw KeystateErrors.maxParallelismChanged(record.maxParallelism, other, location)
    }
    record.checkParallelism(info.numPartitions)
  }

  private def readOrWrite(
      operator: Path,
      fresh: => OperatorRecord,
      hadoopConf: Configuration
  ): OperatorRecord =
    read(operator, hadoopConf).getOrElse {
      // `fresh` is checked here, before it is written: its max parallelism can't be changed later.
      try write(operator, fresh, hadoopConf, replace = false)
      catch {
        case _: FileAlreadyExistsException => // another start of this query wrote it first
      }
      read(operator, hadoopConf).get
    }

  private def write(
      operator: Path,
      record: OperatorRecord,
      hadoopConf: Configuration,
      replace: Boolean
  ): Unit = {
    val json = encode(record)
    val file = fileOf(operator)
    val files = CheckpointFiles.ofRun(operator, hadoopConf)
    files.mkdirs(file.getParent)
    CheckpointFiles.write(files, file, overwriteIfPossible = replace)(_.write(json.getBytes(UTF_8)))
  }

  /** The record in an operator's folder. None if the operator is not one of Keystate's. */
  def read(operator: Path, hadoopConf: Configuration): Option[OperatorRecord] = {
    val file = fileOf(operator)
    val files = CheckpointFiles.ofRun(operator, hadoopConf)
    CheckpointFiles.readIfThere(files, file).map(decode(_, file.toString))
  }

  private[keystate] def encode(record: OperatorRecord): String = {
    val fields = CheckpointFiles.withFormat(
      ("maxParallelism" -> record.maxParallelism) ~ ("name" -> record.name)
    )
    JsonMethods.compact(fields ~ (Checksum -> checksum(fields)))
  }

  private[keystate] def decode(bytes: Array[Byte], file: String): OperatorRecord =
    CheckpointFiles.fromJson(bytes, file) { json =>
      def damaged(detail: String) = new DamagedFileException(file, detail)
      if ((json \ Checksum).extract[Long] != checksum(json)) throw damaged("its checksum is wrong")
      val maxParallelism = (json \ "maxParallelism").extract[Int]
      if (maxParallelism < 1 || maxParallelism > KeyGroups.MaxMaxParallelism)
        throw damaged(s"its max parallelism is $maxParallelism")
      OperatorRecord(maxParallelism, (json \ "name").extractOpt[String])
    }

  /** The checksum of the other fields, as they are written: without white space. */
  private def checksum(json: JObject): Long = {
    val others = JObject(json.obj.filterNot(_._1 == Checksum))
    Crc32c.of(JsonMethods.compact(others).getBytes(UTF_8)) & 0xffffffffL
  }

  def fileOf(operator: Path): Path = new Path(operator, "_keystate/operator")
}
