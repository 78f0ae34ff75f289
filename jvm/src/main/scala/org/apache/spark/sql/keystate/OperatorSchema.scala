package org.apache.spark.sql.keystate

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.{
  TransformWithStateOperatorProperties,
  TransformWithStateVariableInfo,
  TransformWithStateVariableUtils
}
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.{ArrayType, DataType, MapType, StructType}

/** A keyed operator's states in the terms of Spark's own state metadata, by which Spark's `statestore`
  * reader finds them and by which a restarted query is checked against its checkpoint.
  */
private[keystate] final class OperatorSchema(spec: OperatorSpec, keys: StructType) {
  import OperatorSchema._

  private val keySchema = avroNames(keys)

  /** State name to the schema of its entries. A map's entries are keyed by `key` and `userKey`. */
  val columnFamilies: Map[String, StateStoreColFamilySchema] =
    spec.states.map(state => state.name -> columnFamily(state)).toMap

  private def columnFamily(state: StateSpec): StateStoreColFamilySchema = {
    val valueSchema = valueSchemaOf(state)
    state.keyType match {
      case Some(userKey) =>
        val userKeySchema = new StructType().add("key", withAvroNames(userKey))
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

  private def valueSchemaOf(state: StateSpec): StructType = state.valueType match {
    case struct: StructType => avroNames(struct)
    case other => new StructType().add("value", withAvroNames(other))
  }

  val variables: Map[String, TransformWithStateVariableInfo] = spec.states.map { state =>
    val info = state.kind match {
      case StateKind.Value => TransformWithStateVariableUtils.getValueState(state.name, false)
      case StateKind.List => TransformWithStateVariableUtils.getListState(state.name, false)
      case StateKind.Map | StateKind.SortedMap =>
        TransformWithStateVariableUtils.getMapState(state.name, false)
      case StateKind.Broadcast => StateKind.notKeyed
    }
    state.name -> info
  }.toMap

  /** Refuses a state whose kind or type is not what the checkpoint holds, naming the state and both
    * types; Spark's own check names neither.
    */
  def checkAgainstCheckpoint(
      info: StatefulOperatorStateInfo,
      hadoopConf: Configuration,
      batchId: Long
  ): Unit = if (batchId > 0) {
    val operator = new Path(info.checkpointLocation, info.operatorId.toString)
    OperatorStateMetadataReader.createReader(operator, hadoopConf, 2, batchId - 1).read().foreach {
      case metadata: OperatorStateMetadataV2 =>
        val kinds = TransformWithStateOperatorProperties
          .fromJson(metadata.operatorPropertiesJson)
          .stateVariables
          .map(variable => variable.stateName -> variable)
          .toMap
        val schemas = metadata.stateStoreInfo.head.stateSchemaFilePaths.lastOption.toSeq
          .flatMap(readSchemas(_, hadoopConf))
        for (old <- schemas; declared <- columnFamilies.get(old.colFamilyName)) {
          val kind = kinds.get(old.colFamilyName)
          if (kind.exists(_ != variables(old.colFamilyName)) || !sameTypes(old, declared)) {
            throw KeystateErrors.stateChanged(
              old.colFamilyName,
              describe(old, kind),
              describe(declared, variables.get(old.colFamilyName))
            )
          }
        }
      case _ =>
    }
  }

  private def readSchemas(file: String, hadoopConf: Configuration) = {
    val path = new Path(file)
    val files = CheckpointFileManager.create(path.getParent, hadoopConf)
    Using.resource(files.open(path))(StateSchemaCompatibilityChecker.readSchemaFile)
  }

  private def sameTypes(a: StateStoreColFamilySchema, b: StateStoreColFamilySchema): Boolean =
    DataType.equalsIgnoreCompatibleNullability(a.keySchema, b.keySchema) &&
      DataType.equalsIgnoreCompatibleNullability(b.keySchema, a.keySchema) &&
      a.valueSchema.asNullable == b.valueSchema.asNullable

  private def describe(
      schema: StateStoreColFamilySchema,
      kind: Option[TransformWithStateVariableInfo]
  ): String = {
    val name = kind.fold("state")(_.stateVariableType.toString)
    val key = schema.userKeyEncoderSchema.map(user => s"${user.head.dataType.sql}, ")
    val keyed = keySchema.fields.map(f => s"${f.name} ${f.dataType.sql}").mkString(", ")
    s"$name<${key.getOrElse("")}${schema.valueSchema.sql}> keyed by ($keyed)"
  }
}

private object OperatorSchema {

  /** Spark makes Avro schemas of all state schemas, and Avro takes letters, digits and underscores in
    * names only. Other names, such as that of a key which is an expression, are numbered instead.
    */
  private def avroNames(struct: StructType): StructType = StructType(
    struct.fields.zipWithIndex.map { case (field, i) =>
      val name = if (field.name.matches("[A-Za-z_][A-Za-z0-9_]*")) field.name else s"_$i"
      field.copy(name = name, dataType = withAvroNames(field.dataType))
    }
  )

  private def withAvroNames(dataType: DataType): DataType = dataType match {
    case struct: StructType => avroNames(struct)
    case ArrayType(element, nullable) => ArrayType(withAvroNames(element), nullable)
    case MapType(key, value, nullable) =>
      MapType(withAvroNames(key), withAvroNames(value), nullable)
    case other => other
  }
}
