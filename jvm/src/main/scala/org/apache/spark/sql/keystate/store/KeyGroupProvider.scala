package org.apache.spark.sql.keystate.store

import java.util.UUID
import java.util.concurrent.ConcurrentHashMap

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.errors.QueryExecutionErrors
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.{NullType, StructType}
import org.apache.spark.util.{NextIterator, Utils}
import org.apache.spark.{SparkConf, SparkEnv}

import keystate.backend.{StateFamily, TtlSweep}
import keystate.checkpoint.VersionedStore
import keystate.errors.MissingVersionException
import keystate.files.{LocalFolder, StoreLocation}
import org.apache.spark.sql.keystate.encoding.PrefixKeyOrder
import org.apache.spark.sql.keystate.files.SparkCheckpointStorage
import org.apache.spark.sql.keystate.metrics.NativeMemory
import org.apache.spark.sql.keystate.shim.{RowEncoders, StateStoreProviderShim}

/** Keystate's state store provider. It keeps state by key group, and commits it as
  * `keystate.checkpoint.VersionedStore` describes.
  *
  * Spark makes a provider for each partition and store of a stateful operator on an executor, and
  * keeps it for the query's run. The constructor does nothing, because Spark also makes providers
  * just to ask for their metrics.
  */
class KeyGroupProvider extends StateStoreProviderShim with SupportsFineGrainedReplay with Logging {
  import KeyGroupProvider._

  private var storeId: StateStoreId = _
  private var keySchema: StructType = _
  private var valueSchema: StructType = _
  private var useColumnFamilies: Boolean = _
  private var storeConf: StateStoreConf = _
  private[keystate] var hadoopConf: Configuration = _
  private var schemaProvider: Option[StateSchemaProvider] = None
  private var snapshotReported: Option[Long] = None
  private[keystate] var lock: StoreLock = _
  private[keystate] var versions: VersionedStore = _
  private var localRecovery: StoreLocalRecovery = _
  private[keystate] val subtask = new SubtaskScope

  // By column family, which is defined once in a provider's life, not for each version.
  private val codecs = new ConcurrentHashMap[String, SparkCodec]
  private val schemas = new ConcurrentHashMap[String, (StructType, StructType)]

  /** The positions of the sweeps of states with a time to live, by family. */
  private[keystate] val sweeps = mutable.HashMap.empty[Int, TtlSweep]

  override def init(
      stateStoreId: StateStoreId,
      keySchema: StructType,
      valueSchema: StructType,
      keyStateEncoderSpec: KeyStateEncoderSpec,
      useColumnFamilies: Boolean,
      storeConfs: StateStoreConf,
      hadoopConf: Configuration,
      useMultipleValuesPerKey: Boolean,
      stateSchemaProvider: Option[StateSchemaProvider]
  ): Unit = {
    if (useMultipleValuesPerKey)
      require(useColumnFamilies, "Multiple values per key need column families to be enabled")
    this.storeId = stateStoreId
    this.keySchema = keySchema
    this.valueSchema = valueSchema
    this.useColumnFamilies = useColumnFamilies
    this.storeConf = storeConfs
    this.hadoopConf = hadoopConf
    this.schemaProvider = stateSchemaProvider

    val config = new StoreConfig(storeConfs, hadoopConf)
    val name = s"keystate-${stateStoreId.operatorId}-${stateStoreId.partitionId}"
    lock = new StoreLock(stateStoreId, config.lockTimeoutMillis)
    localRecovery = new StoreLocalRecovery(stateStoreId, runId, config.keepSeconds, leave)
    versions = new VersionedStore(
      StoreLocation(stateStoreId.operatorId, stateStoreId.partitionId, stateStoreId.storeName),
      new SparkCheckpointStorage(
        new Path(stateStoreId.checkpointRootLocation, stateStoreId.operatorId.toString),
        hadoopConf
      ),
      config.settings,
      config.backends,
      new LocalFolder(() =>
        Utils.createExecutorLocalTempDir(Option(SparkEnv.get).fold(new SparkConf)(_.conf), name)
      ),
      localRecovery
    )
    defineCodec(
      StateStore.DEFAULT_COL_FAMILY_NAME,
      keySchema,
      valueSchema,
      keyStateEncoderSpec,
      useMultipleValuesPerKey
    )
    NativeMemory.report()
  }

  override def stateStoreId: StateStoreId = storeId

  override def getStore(
      version: Long,
      stateStoreCkptId: Option[String],
      forceSnapshotOnCommit: Boolean,
      loadEmpty: Boolean
  ): StateStore = open(version, readOnly = false, forceSnapshotOnCommit) {
    if (loadEmpty) versions.loadEmpty(version) else load(version, stateStoreCkptId)
  }

  /** A reader too must be the only owner: the state is not copied for it. */
  override def getReadStore(version: Long, uniqueId: Option[String]): StateStore =
    open(version, readOnly = true, snapshotForced = false)(load(version, uniqueId))

  override def upgradeReadStoreToWriteStore(
      readStore: ReadStateStore,
      version: Long,
      uniqueId: Option[String],
      forceSnapshotOnCommit: Boolean
  ): StateStore = readStore match {
    // Not by `this.open`: maintenance may have replaced the provider between reading and writing,
    // and then the store belongs to the old provider (SPARK-56476).
    case store: KeyGroupStateStore if store.id == storeId && store.version == version =>
      store.upgrade(forceSnapshotOnCommit)
    case other =>
      throw new IllegalArgumentException(
        s"cannot write version $version of $storeId through a store of ${other.id}, version " +
          s"${other.version} (${other.getClass.getName})"
      )
  }

  override def replayStateFromSnapshot(
      snapshotVersion: Long,
      endVersion: Long,
      readOnly: Boolean,
      snapshotVersionStateStoreCkptId: Option[String],
      endVersionStateStoreCkptId: Option[String]
  ): StateStore = {
    if (snapshotVersion < 1) throw QueryExecutionErrors.unexpectedStateStoreVersion(snapshotVersion)
    if (endVersion < snapshotVersion)
      throw QueryExecutionErrors.unexpectedStateStoreVersion(endVersion)
    // Each version is complete, so the version from which Spark would start does not matter. It
    // only has to exist.
    if (!versions.exists(snapshotVersion, attempt(snapshotVersionStateStoreCkptId)))
      throw StateStoreErrors.stateStoreSnapshotFileNotFound(
        s"version $snapshotVersion of $storeId",
        getClass.getName
      )
    open(endVersion, readOnly, snapshotForced = false)(load(endVersion, endVersionStateStoreCkptId))
  }

  override def getStateStoreChangeDataReader(
      startVersion: Long,
      endVersion: Long,
      colFamilyNameOpt: Option[String],
      endVersionStateStoreCkptId: Option[String]
  ): NextIterator[(RecordType.Value, UnsafeRow, UnsafeRow, Long)] = new ChangeDataReader(
    this,
    startVersion,
    endVersion,
    attempt(endVersionStateStoreCkptId),
    colFamilyNameOpt.getOrElse(StateStore.DEFAULT_COL_FAMILY_NAME)
  )

  override def doMaintenance(): Unit = if (!lock.isClosed)
    try {
      // Otherwise a store that no task uses would keep its part of the heap.
      lock.ifFree(versions.moveIfDue()): Unit
      versions.maintain()
    } catch {
      // Spark unloads a provider whose maintenance fails. But loaded state is worth more than a
      // clean-up, which can run later.
      case NonFatal(e) => logWarning(s"Maintenance of $storeId failed", e)
    }

  override def close(): Unit = if (versions != null) {
    versions.cancelMaintenance()
    if (lock.close())
      try subtask.close()
      finally
        try versions.close()
        finally localRecovery.end()
  }

  /** For a store of a later run. */
  private def leave(waitMillis: Long): Boolean =
    try lock.ifFree(versions.leave(), waitMillis)
    catch {
      case NonFatal(e) =>
        logWarning(s"$storeId could not leave what it has in memory", e)
        true
    }

  /** Between two transactions. A move that fails costs no more than a load of the version. */
  private[keystate] def moveIfDue(): Unit =
    try versions.moveIfDue()
    catch { case NonFatal(e) => logWarning(s"$storeId could not move, and is loaded again", e) }

  override def supportedCustomMetrics: Seq[StateStoreCustomMetric] = StoreMetrics.all

  private def open(version: Long, readOnly: Boolean, snapshotForced: Boolean)(
      load: => Unit
  ): KeyGroupStateStore = {
    if (version < 0) throw QueryExecutionErrors.unexpectedStateStoreVersion(version)
    val stamp = lock.acquire()
    try {
      load
      registerDefaultFamily()
      new KeyGroupStateStore(this, version, stamp, readOnly, snapshotForced)
    } catch {
      case e: Throwable =>
        lock.release(stamp)
        throw e match {
          // Thrown as the error that Spark has for this.
          case missing: MissingVersionException =>
            val told = if (usesCheckpointIds) missing else versions.explained(missing)
            QueryExecutionErrors.failedToReadStreamingStateFileError(new Path(told.file), told)
          case other => other
        }
    }
  }

  private def load(version: Long, id: Option[String]): Unit = {
    versions.load(version, attempt(id))
    // Without keys everything is in the first partition, whatever the number of partitions.
    if (!keySchema.forall(_.dataType == NullType)) versions.checkHashPartitions()
  }

  private[keystate] def usesCheckpointIds: Boolean = storeConf.enableStateStoreCheckpointIds

  private def attempt(id: Option[String]): Option[String] = id.filter(_ => usesCheckpointIds)

  // The column family that an open store uses.

  private[keystate] def columnFamily(operation: String, name: String): ColumnFamily = {
    checkName(operation, name)
    val family = versions.family(name).getOrElse {
      throw StateStoreErrors.unsupportedOperationOnMissingColumnFamily(operation, name)
    }
    codec(operation, family).open(family, versions)
  }

  private[keystate] def codec(operation: String, family: StateFamily): FamilyCodec = {
    val known =
      if (KeystateCodec.owns(family))
        Option(schemas.get(family.name)).map { case (keySchema, valueSchema) =>
          new KeystateCodec(family, keySchema, valueSchema)
        }
      else Option(codecs.get(family.name))
    known.getOrElse {
      throw StateStoreErrors.unsupportedOperationOnMissingColumnFamily(operation, family.name)
    }
  }

  private[keystate] def defineColumnFamily(
      name: String,
      keySchema: StructType,
      valueSchema: StructType,
      encoderSpec: KeyStateEncoderSpec,
      useMultipleValuesPerKey: Boolean,
      isInternal: Boolean
  ): Unit = {
    checkNewName("create_col_family", name, isInternal)
    schemas.put(name, (keySchema, valueSchema))
    if (!versions.family(name).exists(KeystateCodec.owns)) {
      val codec = defineCodec(name, keySchema, valueSchema, encoderSpec, useMultipleValuesPerKey)
      register(name, codec, isInternal)
    }
  }

  private[keystate] def removeColumnFamily(name: String): Boolean = {
    checkNewName("remove_col_family", name, isInternal = false)
    codecs.remove(name)
    versions.dropFamily(name)
  }

  private[keystate] def metrics(snapshotForced: Boolean): StateStoreMetrics = {
    val entries = versions.families
      .filterNot(_.properties.get(Internal).contains("true"))
      .map(family => versions.backend.count(family.id))
      .sum
    StateStoreMetrics(
      numKeys = entries,
      memoryUsedBytes = versions.backend.memoryUsed,
      customMetrics = StoreMetrics.of(versions, entries, snapshotForced)
    )
  }

  /** Reports a commit to the coordinator. The coordinator fails a `foreachBatch` micro-batch if not
    * all of its stores committed. It also warns of stores without a recent snapshot. Each of
    * Keystate's versions is as good as a snapshot, so now and then one is reported as such.
    */
  private[keystate] def reportCommit(version: Long): Unit = {
    if (storeConf.commitValidationEnabled)
      StateStore.reportCommitToCoordinator(version, storeId, hadoopConf)
    if (!snapshotReported.exists(version - _ < storeConf.minDeltasForSnapshot)) {
      snapshotReported = Some(version)
      reportSnapshot(version)
    }
  }

  // A failure here does not fail the commit. Outside of streaming queries there is no coordinator.
  private def reportSnapshot(version: Long): Unit =
    try
      Option(SparkEnv.get).map(StateStoreCoordinatorRef.forExecutor).foreach {
        _.snapshotUploaded(providerId, version, System.currentTimeMillis())
      }
    catch { case NonFatal(e) => logDebug(s"Could not report version $version of $storeId", e) }

  private def providerId: StateStoreProviderId =
    StateStoreProviderId(storeId, runId)

  private def runId: UUID = UUID.fromString(hadoopConf.get(StreamExecution.RUN_ID_KEY))

  private[keystate] def validateRows(key: UnsafeRow, value: UnsafeRow): Unit =
    if (!useColumnFamilies)
      StateStoreProvider.validateStateRowFormat(
        key,
        keySchema,
        value,
        valueSchema,
        storeId,
        storeConf
      )

  private def registerDefaultFamily(): Unit = {
    val name = StateStore.DEFAULT_COL_FAMILY_NAME
    // Only if it is not there: an operator that does not use the default family may name another
    // encoding for it each time.
    if (versions.family(name).isEmpty) register(name, codecs.get(name), isInternal = false)
  }

  private def register(name: String, codec: SparkCodec, isInternal: Boolean): Unit = {
    val own = versions.family(name).fold(Map.empty[String, String])(_.properties)
    val spark = Map(KeystateCodec.Kind -> "spark") ++ Option.when(isInternal)(Internal -> "true")
    versions.registerFamily(name, codec.layout, own ++ spark): Unit
  }

  private def defineCodec(
      name: String,
      keySchema: StructType,
      valueSchema: StructType,
      spec: KeyStateEncoderSpec,
      useMultipleValuesPerKey: Boolean
  ): SparkCodec = codecs.computeIfAbsent(
    name,
    _ => {
      schemaProvider match {
        // Spark's own tests learn the schemas this way.
        case Some(tests: TestStateSchemaProvider) =>
          tests.captureSchema(name, keySchema, valueSchema)
        case _ =>
      }
      val cacheKey = StateRowEncoderCacheKey(
        queryRunId = hadoopConf.get(StreamExecution.RUN_ID_KEY),
        operatorId = storeId.operatorId,
        partitionId = storeId.partitionId,
        stateStoreName = storeId.storeName,
        colFamilyName = name
      )
      // UnsafeRow or Avro, as the query's setting for state encoding says.
      val rows = RocksDBStateStoreProvider.getDataEncoder(
        storeConf.stateStoreEncodingFormat,
        cacheKey,
        spec,
        valueSchema,
        schemaProvider,
        Some(name)
      )
      new SparkCodec(
        if (name == StateStore.DEFAULT_COL_FAMILY_NAME) storeId.storeName else name,
        spec,
        RocksDBStateEncoder.getKeyEncoder(rows, spec, useColumnFamilies),
        PrefixKeyOrder.of(spec, rows),
        RowEncoders.ofValues(rows, valueSchema, useMultipleValuesPerKey)
      )
    }
  )

  private def checkName(operation: String, name: String): Unit =
    if (name != StateStore.DEFAULT_COL_FAMILY_NAME) {
      checkColumnFamiliesEnabled(operation)
      if (name.isEmpty || name.trim != name)
        throw StateStoreErrors.cannotUseColumnFamilyWithInvalidName(operation, name)
    }

  private def checkNewName(operation: String, name: String, isInternal: Boolean): Unit = {
    checkColumnFamiliesEnabled(operation)
    if (
      name.isEmpty || name.trim != name ||
      (name == StateStore.DEFAULT_COL_FAMILY_NAME && !isInternal)
    )
      throw StateStoreErrors.cannotUseColumnFamilyWithInvalidName(operation, name)
    if (!isInternal && name.charAt(0) == '$')
      throw StateStoreErrors.cannotCreateColumnFamilyWithReservedChars(name)
  }

  private def checkColumnFamiliesEnabled(operation: String): Unit = if (!useColumnFamilies)
    throw StateStoreErrors.unsupportedOperationException(
      operation,
      "multiple column families is disabled in KeyGroupStateStoreProvider"
    )
}

private object KeyGroupProvider {

  /** Marks a family that Spark keeps for itself, such as an index. It does not count as state. */
  final val Internal = "internal"
}
