package org.apache.spark.sql.keystate

import java.nio.charset.StandardCharsets.UTF_8
import java.util.{Collections, LinkedHashMap, Map => JMap}

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileAlreadyExistsException, Path}
import org.json4s.{DefaultFormats, Formats}
import org.json4s.JsonDSL._
import org.json4s.jackson.JsonMethods

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo

import keystate.keygroup.KeyGroups
import keystate.settings.Settings

/** What a checkpoint says of one keyed operator for life: `<state>/<operator>/_keystate/operator`,
  * JSON `{"format": 1, "maxParallelism": K}`, written once before the operator's first batch.
  */
private[keystate] final case class OperatorRecord(maxParallelism: Int) {
  def checkParallelism(partitions: Int): Unit =
    if (partitions > maxParallelism)
      throw KeystateErrors.parallelismTooHigh(partitions, maxParallelism)
}

private[keystate] object OperatorRecord {
  private implicit val formats: Formats = DefaultFormats
  private val Format = 1
  private val KeptInMemory = 1000

  /** Read once per query run: an operator is planned anew for every batch. */
  private val known: JMap[(String, Long, Option[Int]), OperatorRecord] =
    Collections.synchronizedMap(new LinkedHashMap[(String, Long, Option[Int]), OperatorRecord] {
      override def removeEldestEntry(
          eldest: JMap.Entry[(String, Long, Option[Int]), OperatorRecord]
      ): Boolean = size > KeptInMemory
    })

  /** The checkpoint's record, written now if this is the operator's first batch. */
  def resolve(
      info: StatefulOperatorStateInfo,
      spec: OperatorSpec,
      session: SparkSession
  ): OperatorRecord = {
    val conf = session.sessionState.conf
    val wanted = spec.maxParallelism.orElse(
      Settings.MaxParallelism.in(StoreConfig.in(conf))
    )
    wanted.foreach(KeyGroups.checkMaxParallelism)
    if (info.checkpointLocation.isEmpty) {
      OperatorRecord(wanted.getOrElse(default(info)))
    } else {
      val location = s"${info.checkpointLocation}/${info.operatorId}"
      val record = known.computeIfAbsent(
        (s"${info.queryRunId}$location", info.operatorId, wanted),
        _ =>
          readOrWrite(
            new Path(location), {
              val fresh = OperatorRecord(wanted.getOrElse(default(info)))
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
  ): OperatorRecord = {
    val file = fileOf(operator)
    val files = CheckpointFileManager.create(operator, hadoopConf)
    if (!files.exists(file)) {
      // Checked before it is written: it is for life.
      val json = ("format" -> Format) ~ ("maxParallelism" -> fresh.maxParallelism)
      files.mkdirs(file.getParent)
      try
        KeystateCheckpointFileManager.write(files, file, overwriteIfPossible = false)(
          _.write(JsonMethods.compact(json).getBytes(UTF_8))
        )
      catch {
        case _: FileAlreadyExistsException => // another start of this query was first
      }
    }
    read(operator, hadoopConf).get
  }

  /** The record of an operator's folder; None when the operator is not one of Keystate's. */
  def read(operator: Path, hadoopConf: Configuration): Option[OperatorRecord] = {
    val file = fileOf(operator)
    val files = CheckpointFileManager.create(operator, hadoopConf)
    Option.when(files.exists(file)) {
      Using.resource(files.open(file)) { in =>
        val json = JsonMethods.parse(new String(in.readAllBytes(), UTF_8))
        val format = (json \ "format").extract[Int]
        if (format > Format) throw KeystateErrors.newerFormat(file.toString, format, Format)
        OperatorRecord((json \ "maxParallelism").extract[Int])
      }
    }
  }

  private def fileOf(operator: Path): Path = new Path(operator, "_keystate/operator")
}
