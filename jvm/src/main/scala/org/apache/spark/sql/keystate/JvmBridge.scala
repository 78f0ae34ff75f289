package org.apache.spark.sql.keystate

import java.io.NotSerializableException

import scala.util.control.NonFatal

import org.apache.spark.sql.{Column, Dataset, Encoder, Row}
import org.apache.spark.sql.catalyst.analysis.Analyzer
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.internal.StaticSQLConf

import keystate.{KeyedProcessFunction, TypeInformation}

/** What a Dataset is keyed by. */
sealed trait KeyBy[T]

object KeyBy {
  final case class Columns[T](columns: Seq[Column]) extends KeyBy[T]
  final case class Function[T](function: T => Any, encoder: Encoder[_]) extends KeyBy[T]
}

/** What the Scala API calls. */
object JvmBridge {
  private val timeModes = Set("auto", "event_time", "processing_time", "none")

  /** Applies a keyed function to a Dataset. */
  def process[T, K, OUT](
      data: Dataset[T],
      by: KeyBy[T],
      function: KeyedProcessFunction[K, T, OUT],
      keyType: Option[TypeInformation[K]],
      outputType: TypeInformation[OUT],
      name: Option[String],
      maxParallelism: Option[Int],
      timeMode: String
  ): Dataset[OUT] = {
    val df = data match {
      case classic: ClassicDataset[T] => classic
      case _ =>
        throw KeystateErrors.declaration("Keystate needs a classic session, not Spark Connect.")
    }
    checkExtension(df)
    if (!timeModes(timeMode))
      throw KeystateErrors.declaration(
        s"The time mode must be one of ${timeModes.mkString(", ")}, not $timeMode."
      )
    val input = by match {
      case KeyBy.Columns(columns) => KeyedInput.byColumns(df, columns)
      case KeyBy.Function(f, encoder) =>
        KeyedInput.byFunction(df, f, ObjectCodec.expression(encoder))
    }
    val serialized =
      try JvmFunction.serialize(function)
      catch {
        case e: NotSerializableException =>
          throw KeystateErrors.declaration(
            s"The function can't be sent to executors: ${e.getMessage} is not serializable. Mark " +
              "what open makes as @transient.",
            e
          )
      }
    val states = discover(serialized, name)
    val output = ObjectCodec.expression(outputType.encoder)
    val analyzer = df.sparkSession.sessionState.analyzer
    val spec =
      OperatorSpec(name, maxParallelism, timeMode, hasTimers(function), states.map(_.spec))
    val plan = KeyedProcess(
      new JvmFunction(
        serialized,
        df.exprEnc.asInstanceOf[ExpressionEncoder[Any]].resolveAndBind(input.columns, analyzer),
        keyEncoder(keyType.getOrElse(TypeInformation.row), input.keys, analyzer),
        output,
        states
      ),
      input.keys,
      input.columns,
      input.output(output.schema),
      spec,
      input.child
    )
    ClassicDataset(df.sparkSession, plan)(outputType.encoder)
  }

  private def checkExtension(df: ClassicDataset[_]): Unit = {
    val extension = classOf[KeystateExtension].getName
    val loaded = df.sparkSession.sessionState.conf.getConf(StaticSQLConf.SPARK_SESSION_EXTENSIONS)
    if (!loaded.exists(_.contains(extension))) throw KeystateErrors.extensionMissing(extension)
  }

  private def discover(function: Array[Byte], name: Option[String]): Seq[DeclaredState] = {
    val context = new DiscoveryContext(name)
    val copy = JvmFunction.deserialize(function)
    try {
      copy.setRuntimeContext(context)
      copy.open(context)
    } catch {
      case e: KeystateException => throw e
      case NonFatal(e) =>
        throw KeystateErrors.declaration(s"The function's open failed on the driver: $e", e)
    } finally copy.close()
    context.found.toSeq
  }

  private def hasTimers(function: KeyedProcessFunction[_, _, _]): Boolean =
    function.getClass.getMethods.exists(method =>
      method.getName == "onTimer" && method.getDeclaringClass != classOf[
        KeyedProcessFunction[_, _, _]
      ]
    )

  /** Binds the key's type to the key columns, by their order. */
  private def keyEncoder(
      keyType: TypeInformation[_],
      keys: Seq[Attribute],
      analyzer: Analyzer
  ): ExpressionEncoder[Any] = {
    val encoder: ExpressionEncoder[Any] =
      if (keyType eq TypeInformation.row)
        ExpressionEncoder(DataTypeUtils.fromAttributes(keys))
          .asInstanceOf[ExpressionEncoder[Row]]
          .asInstanceOf[ExpressionEncoder[Any]]
      else ObjectCodec.expression(keyType.encoder)
    def mismatch(cause: Throwable) = KeystateErrors.declaration(
      s"The function's key is of type ${encoder.schema.catalogString}, which does not fit the key " +
        s"columns ${DataTypeUtils.fromAttributes(keys).catalogString}.",
      cause
    )
    if (encoder.schema.length != keys.length) throw mismatch(null)
    val named = keys.zip(encoder.schema).map { case (key, field) =>
      AttributeReference(field.name, key.dataType, key.nullable)()
    }
    try encoder.resolveAndBind(named, analyzer)
    catch {
      case NonFatal(e) => throw mismatch(e)
    }
  }
}
