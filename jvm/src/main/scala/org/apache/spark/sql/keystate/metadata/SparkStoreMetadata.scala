package org.apache.spark.sql.keystate.metadata

import java.util.UUID

import scala.util.{Try, Using}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.datasources.v2.state.metadata.StateMetadataPartitionReader
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorsUtils
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate._
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.NullType
import org.apache.spark.util.SerializableConfiguration

import keystate.checkpoint.StoreReader
import keystate.errors.DamagedFileException
import org.apache.spark.sql.keystate.encoding.{PrefixKeyOrder, SparkKeys}
import org.apache.spark.sql.keystate.files.{CheckpointFiles, QueryLogs, SparkFiles}
import org.apache.spark.sql.keystate.shim.{LogEntries, StateKeys}

/** A store of one of Spark's own stateful operators, as Spark's operator metadata and state schema
  * files describe it.
  *
  * @param formatVersion
  *   of the state of a stream-stream join; None for other operators
  */
private[keystate] final case class SparkStoreMetadata(
    operator: Long,
    operatorName: String,
    name: String,
    families: Seq[SparkFamily],
    schemas: Option[StateSchemaProvider],
    formatVersion: Option[Int]
) {

  override def toString: String = s"Store $name of operator $operator ($operatorName)"

  /** Whether the operator has no keys, so that all of its rows go to its first partition. */
  def isUnpartitioned: Boolean =
    families.forall(_.schema.keySchema.forall(_.dataType == NullType))

  /** Whether the store uses column families, by the rule of Spark's own state readers. */
  def usesColumnFamilies: Boolean =
    families.exists(_.name != StateStore.DEFAULT_COL_FAMILY_NAME)

  /** Whether a family can have entries: the default family of transformWithState never has. */
  def hasEntries(family: SparkFamily): Boolean =
    schemas.isEmpty || family.name != StateStore.DEFAULT_COL_FAMILY_NAME

  /** The hash by which Spark shuffles a key's rows, computed from the key in the state. */
  def shuffleHash(family: SparkFamily): UnsafeRow => Int = StateKeys.shuffleHash(
    operatorName,
    name,
    family.name,
    family.spec,
    family.schema.keySchema,
    formatVersion,
    family.variable
  )

  /** Decodes keys as Keystate's provider stores them. Relies on the encoders of Spark's RocksDB
    * provider.
    *
    * @param encoding
    *   Spark's setting of the query
    */
  def keyDecoder(family: SparkFamily, encoding: String): Array[Byte] => UnsafeRow = {
    val cacheKey = StateRowEncoderCacheKey(
      queryRunId = UUID.randomUUID.toString,
      operatorId = operator,
      partitionId = 0,
      stateStoreName = name,
      colFamilyName = family.name
    )
    val rows = RocksDBStateStoreProvider.getDataEncoder(
      encoding,
      cacheKey,
      family.spec,
      family.schema.valueSchema,
      schemas,
      Some(family.name)
    )
    val encoder = RocksDBStateEncoder.getKeyEncoder(rows, family.spec, usesColumnFamilies)
    new SparkKeys(encoder, PrefixKeyOrder.of(family.spec, rows)).decodeKey
  }
}

/** A column family of such a store.
  *
  * @param variable
  *   the state of transformWithState that it belongs to; None for other operators
  */
private[keystate] final case class SparkFamily(
    schema: StateStoreColFamilySchema,
    spec: KeyStateEncoderSpec,
    variable: Option[TransformWithStateVariableInfo]
) {
  def name: String = schema.colFamilyName

  /** Whether one key has several values: list states, and values that joins of format 4 keep by
    * time.
    */
  def hasMultipleValues: Boolean =
    variable.exists(v =>
      v.stateName == name && v.stateVariableType == StateVariableType.ListState
    ) ||
      StateKeys.isListOfJoin(name)

  def isInternal: Boolean = StateKeys.isInternal(name)
}

private[keystate] object SparkStoreMetadata {

  /** The stores of Spark's own operators after a micro-batch, by operator. The stores of an
    * operator are in the order in which Spark lists their checkpoint ids.
    */
  def all(
      conf: Configuration,
      checkpoint: Path,
      batch: Long
  ): Map[Long, Seq[SparkStoreMetadata]] = {
    val metadata = SparkFiles.reading(damagedMetadata(checkpoint, conf, batch)) {
      new StateMetadataPartitionReader(
        checkpoint.toString,
        new SerializableConfiguration(conf),
        batch
      ).allOperatorStateMetadata
    }
    val joinFormat = QueryLogs
      .offsets(conf, checkpoint)
      .get(batch)
      .flatMap(LogEntries.metadata)
      .flatMap(_.conf.get(SQLConf.STREAMING_JOIN_STATE_FORMAT_VERSION.key))
      .map(format => SparkFiles.reading(new Path(checkpoint, s"offsets/$batch"))(format.toInt))
    metadata.map { operator =>
      operator.operatorInfo.operatorId ->
        storesOf(operator).map(read(checkpoint, conf, operator, _, joinFormat))
    }.toMap
  }

  private def storesOf(operator: OperatorStateMetadata): Seq[StateStoreMetadata] = operator match {
    case v1: OperatorStateMetadataV1 => v1.stateStoreInfo.toSeq
    case v2: OperatorStateMetadataV2 => v2.stateStoreInfo.toSeq
    case other => throw new IllegalStateException(s"unknown metadata $other")
  }

  /** Finds the metadata that can't be read: Spark reads the metadata of all operators at once. */
  private def damagedMetadata(checkpoint: Path, conf: Configuration, batch: Long): Path = {
    val state = new Path(checkpoint, "state")
    val fs = state.getFileSystem(conf)
    val metadata = fs.listStatus(state).toSeq.map(status => new Path(status.getPath, "_metadata"))
    metadata
      .find { folder =>
        val version = if (fs.exists(new Path(folder, "v2"))) 2 else 1
        Try(
          OperatorStateMetadataReader
            .createReader(folder.getParent, conf, version, batch)
            .read()
        ).isFailure
      }
      .getOrElse(state)
  }

  private def read(
      checkpoint: Path,
      conf: Configuration,
      operator: OperatorStateMetadata,
      store: StateStoreMetadata,
      joinFormat: Option[Int]
  ): SparkStoreMetadata = {
    val info = operator.operatorInfo
    val root = new Path(checkpoint, "state").toString
    // Only the ends of these paths are used: the checkpoint may be in another place by now.
    val files = store match {
      case v2: StateStoreMetadataV2 =>
        v2.stateSchemaFilePaths.map(schemaFile(_, info.operatorId, new Path(root)))
      case _ => Nil
    }
    val metadata = new Path(root, s"${info.operatorId}/_metadata")
    if (!StoreReader.isStore(store.storeName))
      throw new DamagedFileException(
        metadata.toString,
        s"it names a store '${store.storeName}', which Spark has not"
      )
    val families = schemasOf(root, conf, info.operatorId, store.storeName, files)
    val isTransform =
      StatefulOperatorsUtils.TRANSFORM_WITH_STATE_OP_NAMES.contains(info.operatorName)
    val variables = operator match {
      case v2: OperatorStateMetadataV2 if isTransform =>
        SparkFiles.reading(metadata) {
          TransformWithStateOperatorProperties.fromJson(v2.operatorPropertiesJson).stateVariables
        }
      case _ => Nil
    }
    SparkStoreMetadata(
      info.operatorId,
      info.operatorName,
      store.storeName,
      families.map { schema =>
        val state = StateKeys.stateOf(schema.colFamilyName)
        SparkFamily(
          schema,
          encodingOf(schema, store.numColsPrefixKey),
          variables.find(_.stateName == state)
        )
      },
      Option.when(isTransform)(
        new InMemoryStateSchemaProvider(
          StateSchemaMetadata.createStateSchemaMetadata(root, conf, files.map(_.toString))
        )
      ),
      joinFormat.filter(_ =>
        info.operatorName == StatefulOperatorsUtils.SYMMETRIC_HASH_JOIN_EXEC_OP_NAME
      )
    )
  }

  /** Reads the schemas of a store's families.
    *
    * @param files
    *   the files that the operator's metadata names; none with metadata version 1
    */
  private def schemasOf(
      root: String,
      conf: Configuration,
      operator: Long,
      store: String,
      files: List[Path]
  ): List[StateStoreColFamilySchema] = {
    val id = StateStoreId(root, operator, StateStore.PARTITION_ID_TO_CHECK_SCHEMA, store)
    val file =
      files.lastOption.getOrElse(new Path(id.storeCheckpointLocation(), "_metadata/schema"))
    readSchemas(file, CheckpointFiles.create(file.getParent, conf))
  }

  /** Relies on `readSchemaFile`. Spark's class around it makes the file's folder if it is missing. */
  def readSchemas(file: Path, files: CheckpointFileManager): List[StateStoreColFamilySchema] =
    SparkFiles.reading(file) {
      Using.resource(files.open(file))(StateSchemaCompatibilityChecker.readSchemaFile)
    }

  private def encodingOf(
      schema: StateStoreColFamilySchema,
      prefixColumns: Int
  ): KeyStateEncoderSpec = schema.keyStateEncoderSpec.getOrElse {
    if (prefixColumns > 0) PrefixKeyScanStateEncoderSpec(schema.keySchema, prefixColumns)
    else NoPrefixKeyStateEncoderSpec(schema.keySchema)
  }

  /** A schema file's path in this checkpoint. The metadata has the path of when it was written. */
  def schemaFile(file: String, operator: Long, state: Path): Path =
    schemaFile(file, operator, state, operator)

  /** A schema file's path in a checkpoint where the operator has another number. */
  def schemaFile(file: String, operator: Long, state: Path, as: Long): Path = {
    val marker = s"/$operator/_stateSchema/"
    val place = Option(file).fold(-1)(_.lastIndexOf(marker))
    val names =
      if (place < 0) Array.empty[String] else file.drop(place + marker.length).split("/", -1)
    names match {
      case Array(store, schema) if StoreReader.isStore(store) && StoreReader.isId(schema) =>
        new Path(s"$state/$as/_stateSchema/$store/$schema")
      case _ =>
        throw new DamagedFileException(
          new Path(state, s"$operator/_metadata").toString,
          s"it names a file '$file' with the schema of a state, which can't be one"
        )
    }
  }
}
