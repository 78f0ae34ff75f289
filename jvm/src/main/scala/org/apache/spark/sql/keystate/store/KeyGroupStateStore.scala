package org.apache.spark.sql.keystate.store

import java.util.UUID

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.spark.TaskContext
import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.errors.QueryExecutionErrors
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

import keystate.backend.{Layout, StateFamily, TtlSweep}
import keystate.checkpoint.OperatorState
import keystate.errors.KeystateErrors
import keystate.keygroup.KeyGroupRange
import keystate.version.Manifest
import org.apache.spark.sql.keystate.shim.{StateStoreShim, TaskShim}

/** One version of a partition's state, open for a task. Spark's operators use it as a `StateStore`.
  * Keystate's operators take its backend and work on that.
  *
  * It is open until it is committed, aborted or released. After that the provider can open the next
  * store. A task that ends without any of these aborts it, or releases it if it was opened for
  * reading.
  */
private[keystate] final class KeyGroupStateStore(
    val provider: KeyGroupProvider,
    override val version: Long,
    stamp: Long,
    private var readOnly: Boolean,
    private var snapshotForced: Boolean
) extends StateStoreShim
    with Logging {
  import KeyGroupStateStore._

  @volatile private var status: Status = Open
  private val columnFamilies = mutable.HashMap.empty[String, ColumnFamily]
  private var lastName: String = _
  private var last: ColumnFamily = _
  private var rowsValidated = false
  private var committed: Option[StateStoreCheckpointInfo] = None
  private var lastMetrics = StateStoreMetrics(0, 0, Map.empty)

  /** All work on the backend until the store is closed runs under this lease. */
  val lease: BackendLease = new BackendLease(
    provider.versions.backend,
    () => provider.lock.check(stamp),
    KeyGroupStateStore.task(provider.stateStoreId, version)
  )

  override def id: StateStoreId = provider.stateStoreId

  // The end of the task closes the store, whether the task failed or not: an operator stops early
  // under a limit. Spark's RocksDB store protects itself in the same way.
  Option(TaskContext.get()).foreach { context =>
    context.addTaskCompletionListener[Unit](_ => closeQuietly())
    context.addTaskFailureListener((_, _) => closeQuietly())
    // If the task had already failed, the listeners have run immediately.
    TaskShim.failureOf(context).foreach(throw _)
  }

  // For Keystate's operators, which use the backend through the lease:

  def maxParallelism: Int = provider.versions.maxParallelism

  def registerFamily(name: String, layout: Layout, properties: Map[String, String]): StateFamily = {
    checkOpen("create a state")
    provider.versions.registerFamily(name, layout, properties)
  }

  /** The key groups of the version. */
  def groups: KeyGroupRange = provider.versions.manifest.partitioning.groups

  /** The positions of the sweeps of states with a time to live, by family. */
  def sweeps: mutable.HashMap[Int, TtlSweep] = provider.sweeps

  /** The operator state of every subtask in the version that this store began with. */
  def operatorStates(ids: Seq[Option[String]]): Seq[OperatorState] =
    if (version == 0) Nil else provider.versions.operatorStates(ids)

  def family(name: String): Option[StateFamily] = provider.versions.family(name)

  def families: Iterable[StateFamily] = provider.versions.families

  /** Whether all run files of the version have only key groups of the partition. */
  def ownsFiles: Boolean = {
    val manifest = provider.versions.manifest
    manifest.runs.forall(manifest.isWhole)
  }

  /** Whether the version's files have lost all entries that were removed up to another version. */
  def isRidOf(removed: Long): Boolean = provider.versions.isRidOf(removed)

  /** Lets maintenance see to it that nothing is left. */
  def getRidOf(removed: Long): Unit = provider.versions.getRidOf(removed)

  /** The version that it began with or, after the commit, the new version. */
  def manifest: Manifest = provider.versions.manifest

  def dropFamily(family: StateFamily): Unit = {
    checkOpen("remove a state")
    provider.versions.dropFamily(family.name): Unit
  }

  // The methods of Spark's StateStore:

  override def createColFamilyIfAbsent(
      name: String,
      keySchema: StructType,
      valueSchema: StructType,
      encoderSpec: KeyStateEncoderSpec,
      useMultipleValuesPerKey: Boolean,
      isInternal: Boolean
  ): Unit = {
    checkOpen("create a column family")
    provider.defineColumnFamily(
      name,
      keySchema,
      valueSchema,
      encoderSpec,
      useMultipleValuesPerKey,
      isInternal
    )
    forget(name)
  }

  override def removeColFamilyIfExists(name: String): Boolean = {
    checkOpen("remove a column family")
    forget(name)
    provider.removeColumnFamily(name)
  }

  override def allColumnFamilyNames: Set[String] = provider.versions.families.map(_.name).toSet

  override def get(key: UnsafeRow, columnFamily: String): UnsafeRow = {
    val family = open("get", columnFamily)
    verifyKey(key)
    val value = family.get(key)
    validateRows(key, value)
    value
  }

  override def multiGet(keys: Array[UnsafeRow], columnFamily: String): Iterator[UnsafeRow] = {
    val family = open("multiGet", columnFamily)
    keys.foreach(verifyKey)
    family.multiGet(keys)
  }

  override def valuesIterator(key: UnsafeRow, columnFamily: String): Iterator[UnsafeRow] = {
    val family = open("valuesIterator", columnFamily)
    verifyKey(key)
    family.valuesIterator(key)
  }

  override def put(key: UnsafeRow, value: UnsafeRow, columnFamily: String): Unit = {
    val family = open("put", columnFamily)
    verifyKey(key)
    require(value != null, "Cannot put a null value")
    lease.useInOneThread(family.put(key, value))
  }

  override def putList(key: UnsafeRow, values: Array[UnsafeRow], columnFamily: String): Unit = {
    val family = open("put", columnFamily)
    verifyKey(key)
    verifyValues("put", values)
    lease.useInOneThread(family.putList(key, values))
  }

  override def merge(key: UnsafeRow, value: UnsafeRow, columnFamily: String): Unit =
    mergeList(key, Array(value), columnFamily)

  override def mergeList(key: UnsafeRow, values: Array[UnsafeRow], columnFamily: String): Unit = {
    val family = open("merge", columnFamily)
    verifyKey(key)
    verifyValues("merge", values)
    lease.useInOneThread(family.mergeList(key, values))
  }

  override def remove(key: UnsafeRow, columnFamily: String): Unit = {
    val family = open("remove", columnFamily)
    verifyKey(key)
    lease.useInOneThread(family.remove(key))
  }

  override def deleteRange(begin: UnsafeRow, end: UnsafeRow, columnFamily: String): Unit = {
    val family = open("deleteRange", columnFamily)
    verifyKey(begin)
    verifyKey(end)
    lease.useInOneThread(family.deleteRange(begin, end))
  }

  override def iterator(columnFamily: String): StateStoreIterator[UnsafeRowPair] = {
    val pairs = open("iterator", columnFamily).iterator()
    new StateStoreIterator(
      pairs.map { pair =>
        validateRows(pair.key, pair.value)
        pair
      },
      pairs.onClose
    )
  }

  override def iteratorWithMultiValues(columnFamily: String): StateStoreIterator[UnsafeRowPair] =
    open("iteratorWithMultiValues", columnFamily).iteratorWithMultiValues()

  override def prefixScan(
      prefix: UnsafeRow,
      columnFamily: String
  ): StateStoreIterator[UnsafeRowPair] = open("prefixScan", columnFamily).prefixScan(prefix)

  override def prefixScanWithMultiValues(
      prefix: UnsafeRow,
      columnFamily: String
  ): StateStoreIterator[UnsafeRowPair] =
    open("prefixScanWithMultiValues", columnFamily).prefixScanWithMultiValues(prefix)

  override def rangeScan(
      start: Option[UnsafeRow],
      end: Option[UnsafeRow],
      columnFamily: String
  ): StateStoreIterator[UnsafeRowPair] = open("rangeScan", columnFamily).rangeScan(start, end)

  override def rangeScanWithMultiValues(
      start: Option[UnsafeRow],
      end: Option[UnsafeRow],
      columnFamily: String
  ): StateStoreIterator[UnsafeRowPair] =
    open("rangeScanWithMultiValues", columnFamily).rangeScanWithMultiValues(start, end)

  override def commit(): Long = synchronized {
    try {
      checkOpen("commit")
      if (!lease.end()) throw KeystateErrors.stateInUse(toString)
      columnFamilies.values.foreach(_.close())
      val attempt = Option.when(provider.usesCheckpointIds)(UUID.randomUUID.toString)
      val manifest = provider.versions.commit(attempt)
      committed =
        Some(StateStoreCheckpointInfo(id.partitionId, manifest.version, attempt, manifest.baseId))
      lastMetrics = provider.metrics(snapshotForced)
      provider.moveIfDue()
      close(Committed)
      provider.reportCommit(manifest.version)
      manifest.version
    } catch {
      case e: Throwable => throw QueryExecutionErrors.failedToCommitStateFileError(toString, e)
    }
  }

  /** Does nothing if the store is closed: after a commit there is nothing to undo. */
  override def abort(): Unit = synchronized {
    if (status == Open)
      try undo()
      finally close(Aborted)
  }

  override def release(): Unit = synchronized {
    require(readOnly, "only a store that was opened for reading can be released")
    if (status == Open)
      try undo()
      finally close(Released)
  }

  /** Rolls the backend back. If somebody still uses it and does not end, they keep it, and the next
    * load makes another backend.
    */
  private def undo(): Unit = {
    provider.lock.check(stamp)
    if (lease.end()) {
      columnFamilies.values.foreach(_.close())
      provider.versions.rollback()
    } else {
      logWarning(s"The state of $this is given up, for a thread is still at work with it")
      provider.versions.abandon()
      lease.closeLater()
    }
  }

  override def hasCommitted: Boolean = status == Committed

  /** While the store is open, the metrics of the work so far. */
  override def metrics: StateStoreMetrics =
    if (status == Open) provider.metrics(snapshotForced) else lastMetrics

  override def getStateStoreCheckpointInfo(): StateStoreCheckpointInfo = committed.getOrElse {
    throw StateStoreErrors.stateStoreOperationOutOfOrder(
      "Cannot get checkpointInfo without committing the store"
    )
  }

  /** Turns a store that was opened for reading into one for writing. */
  private[keystate] def upgrade(forceSnapshot: Boolean): KeyGroupStateStore = {
    checkOpen("write")
    require(readOnly, s"$this is open for writing already")
    readOnly = false
    snapshotForced = forceSnapshot
    this
  }

  override def toString: String = s"KeyGroupStateStore[$id, version=$version]"

  private def open(operation: String, columnFamily: String): ColumnFamily = {
    checkOpen(operation)
    // Compared by reference: callers pass the same String again and again.
    if (columnFamily ne lastName) {
      last =
        columnFamilies.getOrElseUpdate(columnFamily, provider.columnFamily(operation, columnFamily))
      lastName = columnFamily
    }
    last
  }

  private def forget(columnFamily: String): Unit = {
    columnFamilies.remove(columnFamily).foreach(_.close())
    lastName = null
  }

  private def checkOpen(operation: String): Unit = {
    if (status != Open)
      throw StateStoreErrors.stateStoreOperationOutOfOrder(s"Cannot $operation after $status")
    provider.lock.check(stamp)
  }

  private def closeQuietly(): Unit =
    try if (readOnly) release() else abort()
    catch { case NonFatal(e) => logWarning(s"Could not abort $this", e) }

  private def close(end: Status): Unit = {
    status = end
    provider.lock.release(stamp)
  }

  private def verifyKey(key: UnsafeRow): Unit =
    if (key == null) throw new IllegalStateException("Key cannot be null")

  private def verifyValues(operation: String, values: Array[UnsafeRow]): Unit = {
    require(values != null, s"Cannot $operation a null value")
    require(!values.contains(null), s"Cannot $operation a null value in the array")
  }

  // Once for each store, as in Spark's own providers.
  private def validateRows(key: UnsafeRow, value: UnsafeRow): Unit =
    if (!rowsValidated && value != null) {
      provider.validateRows(key, value)
      rowsValidated = true
    }
}

private object KeyGroupStateStore {

  /** Names the task that works with a store, for messages. */
  def task(id: StateStoreId, version: Long): String = {
    val attempt = Option(TaskContext.get()).fold("")(task => s", attempt ${task.attemptNumber()}")
    s"batch $version, operator ${id.operatorId}, partition ${id.partitionId}$attempt"
  }

  sealed trait Status
  case object Open extends Status
  case object Committed extends Status
  case object Aborted extends Status
  case object Released extends Status
}
