package org.apache.spark.sql.keystate.metadata

import java.util.UUID

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.{
  TransformWithStateVariableInfo, TransformWithStateVariableUtils
}
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types._

import org.apache.spark.sql.keystate.files.{CheckpointFiles, SparkFiles}
import org.apache.spark.sql.keystate.spec.{SchemaEvolution, StateKind, StateSpec}

/** Describes a keyed operator's states in Spark's own state metadata, where Spark's `statestore`
  * reader looks for them.
  *
  * @param states
  *   the states that the function declares, and those that are kept from earlier runs
  */
private[keystate] final class SparkStateSchema(states: Seq[StateSpec], keys: StructType) {
  import SparkStateSchema._

  private val keySchema = avroNames(keys.asNullable)

  /** The schema of the entries, by state name. A map's entries have the key columns `key` and
    * `userKey`.
    */
  val columnFamilies: Map[String, StateStoreColFamilySchema] =
    states.map(state => state.name -> columnFamily(state)).toMap

  private def columnFamily(state: StateSpec): StateStoreColFamilySchema = {
    val valueSchema = valueSchemaOf(state)
    state.keyType match {
      case Some(userKey) =>
        val userKeySchema = new StructType().add("key", withAvroNames(userKey.asNullable))
        val entryKey = new StructType().add("key", keySchema).add("userKey", userKeySchema)
        StateStoreColFamilySchema(
          state.name,
          0,
          entryKey,
          0,
          valueSchema,
          Some(PrefixKeyScanStateEncoderSpec(entryKey, 1)),
          Some(userKeySchema)
        )
      case None =>
        val encoder = NoPrefixKeyStateEncoderSpec(keySchema)
        StateStoreColFamilySchema(state.name, 0, keySchema, 0, valueSchema, Some(encoder))
    }
  }

  private def valueSchemaOf(state: StateSpec) = SchemaEvolution.bare(state.valueType) match {
    case struct: StructType => avroNames(struct)
    case other => new StructType().add("value", withAvroNames(other))
  }

  val variables: Map[String, TransformWithStateVariableInfo] = states.map { state =>
    val info = state.kind match {
      case StateKind.Value => TransformWithStateVariableUtils.getValueState(state.name, false)
      case StateKind.List => TransformWithStateVariableUtils.getListState(state.name, false)
      case StateKind.Map | StateKind.SortedMap =>
        TransformWithStateVariableUtils.getMapState(state.name, false)
    }
    state.name -> info
  }.toMap

  /** Writes the schemas to a new file, unless the last ones are equal. It replaces Spark's own check,
    * which counts states that no micro-batch has committed yet, and refuses changes that
    * [[SchemaEvolution]] can read.
    *
    * @param folder
    *   for schema files
    */
  def write(
      info: StatefulOperatorStateInfo,
      folder: Path,
      hadoopConf: Configuration,
      batchId: Long
  ): StateSchemaValidationResult = {
    val operator = new Path(info.checkpointLocation, info.operatorId.toString)
    // The declaration of an earlier attempt at this micro-batch does not count, but Spark would
    // keep it.
    val files = CheckpointFiles.ofRun(operator, hadoopConf)
    val earlier = OperatorStateMetadataV2.metadataFilePath(operator, batchId)
    if (files.exists(earlier)) files.delete(earlier)
    val last = lastFile(operator, hadoopConf, batchId - 1).map(
      SparkStoreMetadata.schemaFile(_, info.operatorId, operator.getParent).toString
    )
    val before = last.fold(List.empty[StateStoreColFamilySchema])(readSchemas(_, hadoopConf))
    val now = columnFamilies.values.toList.sortBy(_.colFamilyName).map(readable)
    last match {
      case Some(file) if before == now => StateSchemaValidationResult(evolvedSchema = false, file)
      case _ =>
        val file = new Path(folder, s"${batchId}_${UUID.randomUUID}")
        files.mkdirs(folder)
        CheckpointFiles.write(files, file, overwriteIfPossible = false)(
          new SchemaHelper.SchemaV3Writer().write(now, _)
        )
        StateSchemaValidationResult(evolvedSchema = true, file.toString)
    }
  }
}

private[keystate] object SparkStateSchema {

  /** The newest schema file that the operator had in a micro-batch. None before the first one. */
  private def lastFile(operator: Path, hadoopConf: Configuration, batchId: Long) =
    if (batchId < 0) None
    else
      SparkFiles.reading(new Path(operator, "_metadata")) {
        OperatorStateMetadataReader.createReader(operator, hadoopConf, 2, batchId).read().collect {
          case metadata: OperatorStateMetadataV2 =>
            metadata.stateStoreInfo.head.stateSchemaFilePaths.last
        }
      }

  private def readSchemas(file: String, hadoopConf: Configuration) = {
    val path = new Path(file)
    SparkStoreMetadata.readSchemas(path, CheckpointFiles.ofRun(path.getParent, hadoopConf))
  }

  /** A schema that Spark's reader can load: it makes Avro schemas of all states of an operator, and
    * one type that Avro does not have would keep it from reading any. In the file such a type is
    * binary; Keystate's own metadata has the true one.
    */
  private def readable(schema: StateStoreColFamilySchema): StateStoreColFamilySchema = {
    val userKey = schema.userKeyEncoderSchema.map(inAvro)
    schema.copy(
      keySchema = userKey.fold(schema.keySchema)(
        new StructType().add(schema.keySchema.head).add("userKey", _)
      ),
      valueSchema = inAvro(schema.valueSchema),
      userKeyEncoderSchema = userKey
    )
  }

  private def inAvro(struct: StructType): StructType = struct
    .transformRecursively {
      case MapType(key, _, _) if !key.isInstanceOf[StringType] => BinaryType
      case _: TimeType | _: AnsiIntervalType => BinaryType
    }
    .asInstanceOf[StructType]

  /** Spark makes Avro schemas of all state schemas, and Avro allows only letters, digits and
    * underscores in names. Other names, such as that of a key expression, are replaced by numbered
    * ones. Each name is unique: a column may be called `_1` itself.
    */
  private def avroNames(struct: StructType): StructType = {
    val own = struct.fieldNames.filter(_.matches("[A-Za-z_][A-Za-z0-9_]*")).toSet
    val names = struct.fieldNames.zipWithIndex.foldLeft(Vector.empty[String]) {
      case (made, (name, i)) =>
        if (own(name) && !made.contains(name)) made :+ name
        else made ++ Iterator.iterate(s"_$i")(_ + "_").find(one => !own(one) && !made.contains(one))
    }
    StructType(struct.fields.zip(names).map { case (field, name) =>
      field.copy(name = name, dataType = withAvroNames(field.dataType))
    })
  }

  private def withAvroNames(dataType: DataType): DataType = dataType match {
    case struct: StructType => avroNames(struct)
    case ArrayType(element, nullable) => ArrayType(withAvroNames(element), nullable)
    case MapType(key, value, nullable) =>
      MapType(withAvroNames(key), withAvroNames(value), nullable)
    case other => other
  }
}
