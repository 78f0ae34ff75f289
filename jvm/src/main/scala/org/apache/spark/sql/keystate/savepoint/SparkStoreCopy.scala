package org.apache.spark.sql.keystate.savepoint

import java.util.UUID

import scala.collection.mutable

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.util.SerializableConfiguration

import org.apache.spark.sql.keystate.metadata.{SparkFamily, SparkStoreMetadata}
import org.apache.spark.sql.keystate.shim.{SparkLists, StateStoreProviderShim}

/** Copies a version of a store from one checkpoint to another. It reads and writes row by row,
  * through both state store providers. Each partition goes to the partition with the same number.
  */
private[keystate] final class SparkStoreCopy(
    session: SparkSession,
    store: SparkStoreMetadata,
    from: SparkStoreCopy.Place,
    to: SparkStoreCopy.Place,
    version: Long
) {

  /** @param ids
    *   the ids of the partitions' versions; None with checkpoint format v1
    * @return
    *   the ids of the copies
    */
  def run(conf: Configuration, ids: Seq[Option[String]]): Seq[Option[String]] = {
    // Copied to local values, so that a task does not take this object along.
    val (of, source, target, at) = (store, from, to, version)
    val shared = SerializableConfiguration.broadcast(session.sparkContext, conf)
    session.sparkContext
      .parallelize(ids.zipWithIndex, ids.size)
      .map { case (id, partition) =>
        SparkStoreCopy.copy(of, source, target, at, partition, id, shared.value.value)
      }
      .collect()
      .toSeq
  }
}

private[keystate] object SparkStoreCopy {

  /** The place of stores: a checkpoint's folder of states, and the settings of the stores. */
  final case class Place(state: String, conf: StateStoreConf)

  private def copy(
      store: SparkStoreMetadata,
      from: Place,
      to: Place,
      version: Long,
      partition: Int,
      id: Option[String],
      conf: Configuration
  ): Option[String] = withProvider(store, from, partition, conf) { source =>
    withProvider(store, to, partition, conf) { target =>
      val read = source.getStore(version, id)
      try {
        val written = target
          .asInstanceOf[StateStoreProviderShim]
          .getStore(version - 1, None, forceSnapshotOnCommit = false, loadEmpty = true)
        try {
          Seq(read, written).foreach(define(store, _))
          store.families.filter(store.hasEntries).foreach(copy(_, read, written))
          written.commit()
          written.getStateStoreCheckpointInfo().stateStoreCkptId
        } finally if (!written.hasCommitted) written.abort()
      } finally read.abort() // undoes nothing: nothing was changed
    }
  }

  private def withProvider[T](
      store: SparkStoreMetadata,
      at: Place,
      partition: Int,
      conf: Configuration
  )(body: StateStoreProvider => T): T = {
    val default = store.families
      .find(_.name == StateStore.DEFAULT_COL_FAMILY_NAME)
      .getOrElse(store.families.head) // some joins have none, and nothing is in it
    val provider = StateStoreProvider.createAndInit(
      new StateStoreProviderId(
        StateStoreId(at.state, store.operator, partition, store.name),
        UUID.randomUUID
      ),
      default.schema.keySchema,
      default.schema.valueSchema,
      default.spec,
      store.usesColumnFamilies,
      at.conf,
      new Configuration(conf), // a copy, because the provider changes it
      useMultipleValuesPerKey = false,
      store.schemas
    )
    try body(provider)
    finally provider.close()
  }

  private def define(store: SparkStoreMetadata, open: StateStore): Unit =
    if (store.usesColumnFamilies)
      store.families.filter(_.name != StateStore.DEFAULT_COL_FAMILY_NAME).foreach { family =>
        open.createColFamilyIfAbsent(
          family.name,
          family.schema.keySchema,
          family.schema.valueSchema,
          family.spec,
          family.hasMultipleValues,
          family.isInternal
        )
      }

  private def copy(family: SparkFamily, from: StateStore, to: StateStore): Unit =
    if (family.hasMultipleValues) copyLists(family.name, from, to)
    else {
      val entries = from.iterator(family.name)
      try entries.foreach(entry => to.put(entry.key, entry.value, family.name))
      finally entries.close()
    }

  /** Relies on the values of a key coming one after the other. */
  private def copyLists(family: String, from: StateStore, to: StateStore): Unit = {
    val entries = SparkLists.entries(from, family)
    try {
      val values = mutable.ArrayBuffer.empty[UnsafeRow]
      var key: UnsafeRow = null
      def flush(): Unit = if (key != null) to.putList(key, values.toArray, family)
      entries.foreach { entry =>
        if (entry.key != key) {
          flush()
          key = entry.key.copy()
          values.clear()
        }
        values += entry.value.copy()
      }
      flush()
    } finally entries.close()
  }
}
