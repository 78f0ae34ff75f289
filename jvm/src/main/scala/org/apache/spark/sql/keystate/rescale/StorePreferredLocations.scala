package org.apache.spark.sql.keystate.rescale

import java.util.UUID
import java.util.concurrent.ConcurrentHashMap

import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path

import org.apache.spark.internal.Logging
import org.apache.spark.scheduler.{ExecutorCacheTaskLocation, TaskLocation}
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperator
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinHelper.{
  LeftSide, RightSide
}
import org.apache.spark.sql.execution.streaming.operators.stateful.join.SymmetricHashJoinStateManager
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.execution.streaming.state.{StateStoreId, StateStoreProviderId}

import keystate.config.Settings
import keystate.localrecovery.PreferredLocations
import org.apache.spark.sql.keystate.operator.KeyedProcessExec
import org.apache.spark.sql.keystate.store.StoreConfig

/** Records where a query's stores are when the query is held before a stop, so that its next run
  * can use the entries in the executors' memory.
  *
  * Relies on Spark's coordinator of state stores. The coordinator knows the executor of each store
  * of a run, forgets them when the run ends, and gives the RDDs of stateful operators the preferred
  * location of each task. An executor that loads a store reports it to the coordinator; earlier
  * reports from here are only a preference. Tasks wait for the preferred executor for
  * `spark.locality.wait`, as they do from one micro-batch to the next.
  */
private[keystate] object StorePreferredLocations extends Logging {

  private final case class Operator(
      id: Long,
      root: String,
      stores: Seq[String],
      executors: IndexedSeq[Option[String]],
      isRanges: Boolean
  )

  private final case class Noted(operators: Seq[Operator], untilNanos: Long)

  /** By query id. */
  private val noted = new ConcurrentHashMap[UUID, Noted]

  /** Takes note of where a query's stores are now. */
  def note(query: StreamExecution): Unit = atBest("where the stores of a query are") {
    val seconds =
      Settings.KeepSeconds.of(StoreConfig.in(query.sparkSessionForStream.sessionState.conf))
    noted.remove(query.id)
    if (seconds > 0 && !query.sparkSession.sparkContext.isLocal)
      noted.put(query.id, Noted(operators(query), System.nanoTime + seconds * 1000000000L)): Unit
  }

  /** Makes a query that starts with this number of partitions prefer the executors of its last run,
    * and those added since.
    */
  def prefer(query: StreamExecution, partitions: Int): Unit =
    Option(noted.remove(query.id)).filter(_.untilNanos - System.nanoTime > 0).foreach { last =>
      atBest("which executors a query prefers") {
        val now = hosts(query)
        // The path as Spark builds it. A query that continues from a copy has its stores elsewhere.
        val root = new Path(query.resolvedCheckpointRoot, "state").toString
        if (now.size > 1)
          last.operators.filter(_.root == root).foreach(prefer(query, _, partitions, now))
      }
    }

  private def prefer(
      query: StreamExecution,
      operator: Operator,
      partitions: Int,
      hosts: Map[String, String]
  ): Unit = if (operator.isRanges || operator.executors.size == partitions) {
    val preferred = PreferredLocations.of(operator.executors, partitions, hosts.keys.toSeq.sorted)
    logInfo(
      s"Operator ${operator.id} was on executors ${operator.executors.map(_.getOrElse("?"))}, " +
        s"and is to be on ${preferred.flatten}"
    )
    for {
      (Some(executor), partition) <- preferred.zipWithIndex
      store <- operator.stores
    } coordinator(query).reportActiveInstance(
      StateStoreProviderId(StateStoreId(operator.root, operator.id, partition, store), query.runId),
      hosts(executor),
      executor,
      Nil
    )
  }

  private def operators(query: StreamExecution): Seq[Operator] =
    Option(query.lastExecution).toSeq.flatMap(_.executedPlan.collect {
      case operator: StatefulOperator if operator.stateInfo.isDefined =>
        val info = operator.getStateInfo
        def placeOf(partition: Int, store: String): Option[String] = coordinator(query).getLocation(
          StateStoreProviderId(
            StateStoreId(info.checkpointLocation, info.operatorId, partition, store),
            info.queryRunId
          )
        )
        val stores = storeNames.filter(placeOf(0, _).isDefined)
        Operator(
          info.operatorId,
          info.checkpointLocation,
          stores,
          (0 until info.numPartitions).map { partition =>
            stores.headOption.flatMap(placeOf(partition, _)).map(TaskLocation(_)).collect {
              case at: ExecutorCacheTaskLocation => at.executorId
            }
          },
          operator.isInstanceOf[KeyedProcessExec]
        )
    })

  /** The store names of any operator. */
  private lazy val storeNames = StateStoreId.DEFAULT_STORE_NAME +:
    SymmetricHashJoinStateManager.allStateStoreNames(LeftSide, RightSide)

  private def coordinator(query: StreamExecution) =
    query.sparkSession.streams.stateStoreCoordinator

  /** The hosts of the executors that are there. */
  private def hosts(query: StreamExecution): Map[String, String] =
    query.sparkSession.sparkContext.env.blockManager.master.getMemoryStatus.keys
      .filterNot(_.isDriver)
      .map(executor => executor.executorId -> executor.host)
      .toMap

  /** A query runs as well without it. */
  private def atBest(what: String)(body: => Unit): Unit =
    try body
    catch { case NonFatal(e) => logWarning(s"It is not known $what", e) }
}
