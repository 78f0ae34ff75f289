package org.apache.spark.sql.keystate.source

import java.io.NotSerializableException
import java.time.Duration

import scala.util.control.NonFatal

import org.apache.spark.sql.classic.{SparkSession => ClassicSparkSession}
import org.apache.spark.sql.{Dataset, SparkSession}

import keystate.errors.{KeystateErrors, KeystateException}
import keystate.{ParallelSourceFunction, SourceFunction, TypeInformation}
import org.apache.spark.sql.keystate.encoding.ObjectCodec
import org.apache.spark.sql.keystate.jvm.state.JvmOperatorStateSpec
import org.apache.spark.sql.keystate.jvm.{JvmFunction, Outputs, ScalaBridge}

/** The entry points of the Scala API for sources. */
object SourceBridge {

  /** A streaming Dataset of the elements that a source emits. */
  def source[T](
      session: SparkSession,
      function: SourceFunction[T],
      rowType: TypeInformation[T],
      settings: SourceSettings
  ): Dataset[T] = {
    val classic = session match {
      case own: ClassicSparkSession => own
      case _ => throw ScalaBridge.notClassic()
    }
    ScalaBridge.checkExtension(classic)
    check(function, settings)
    val name = settings.name.getOrElse(function.getClass.getSimpleName)
    val serialized =
      try JvmFunction.serialize(function)
      catch {
        case e: NotSerializableException =>
          throw KeystateErrors.declaration(
            s"The source $name can't be copied: ${e.getMessage} is not serializable. Mark what " +
              "open makes as @transient.",
            e
          )
      }
    val output = Outputs(ObjectCodec.expression(rowType.encoder))
    val source = JvmSource(
      name,
      serialized,
      output,
      declaredBy(name, serialized),
      settings.parallelism,
      settings.maxRowsPerBatch,
      settings.maxBatchDuration.toNanos
    )
    val limits =
      AvailableNowLimits(settings.availableNowRows, settings.availableNowDuration.toMillis)
    // Rows that Python has collected may have nulls.
    StatefulSource(name, output.schema.asNullable, source, limits)
      .toDF(classic)
      .as[T](rowType.encoder)
  }

  private def declaredBy(name: String, serialized: Array[Byte]): JvmOperatorStateSpec =
    try
      JvmOperatorStateSpec.of(
        JvmFunction.deserialize(serialized),
        new SourceRuntimeContext(name, 0, 1)
      )
    catch {
      case e: KeystateException => throw e
      case NonFatal(e) =>
        throw KeystateErrors.declaration(
          s"The initializeState of source $name failed on the driver: $e",
          e
        )
    }

  private def check(function: SourceFunction[_], settings: SourceSettings): Unit = {
    import settings._
    def refuse(problem: String) = throw KeystateErrors.declaration(problem)
    if (parallelism < 1) refuse(s"parallelism must be at least 1, not $parallelism.")
    if (parallelism > 1 && !function.isInstanceOf[ParallelSourceFunction[_]])
      refuse(
        s"parallelism is $parallelism, but ${function.getClass.getName} is not a " +
          "ParallelSourceFunction."
      )
    if (maxRowsPerBatch < parallelism)
      refuse(
        "maxRowsPerBatch must be at least 1 for every instance, not " +
          s"$maxRowsPerBatch for $parallelism."
      )
    if (availableNowRows < 1) refuse(s"availableNowRows must be at least 1, not $availableNowRows.")
    Seq("maxBatchDuration" -> maxBatchDuration, "availableNowDuration" -> availableNowDuration)
      .filter { case (_, duration) => duration.isNegative || duration.isZero }
      .foreach { case (setting, duration) => refuse(s"$setting must be positive, not $duration.") }
  }
}

/** A source's settings besides its function; see `spark.addSource`. */
final case class SourceSettings(
    parallelism: Int,
    maxRowsPerBatch: Int,
    maxBatchDuration: Duration,
    availableNowRows: Long,
    availableNowDuration: Duration,
    name: Option[String]
)
