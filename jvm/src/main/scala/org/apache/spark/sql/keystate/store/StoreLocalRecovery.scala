package org.apache.spark.sql.keystate.store

import java.util.concurrent.{CompletableFuture, TimeUnit}
import java.util.{Collections, UUID, WeakHashMap}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.SparkEnv
import org.apache.spark.sql.execution.streaming.state.{
  StateStore, StateStoreCoordinatorRef, StateStoreId, StateStoreProviderId
}

import keystate.backend.GroupEntries
import keystate.localrecovery.{LocalRecovery, RetainedKeyGroups}
import keystate.version.Manifest

/** The entries that the store of a query's run recovers: those that stores of the same operator
  * left in this JVM when they were closed, and those that stores of ended runs can still leave. So
  * a start of the query, with any number of partitions, uses the entries in the executors' memory.
  *
  * @param giveUp
  *   unloads the store, which leaves its entries. False if a task has it for longer than this many
  *   ms
  * @param seconds
  *   how long the entries stay in memory; 0: nothing is left or recovered
  */
private[keystate] final class StoreLocalRecovery(
    id: StateStoreId,
    runId: UUID,
    seconds: Int,
    private val giveUp: Long => Boolean
) extends LocalRecovery {
  import StoreLocalRecovery._

  private val providerId = StateStoreProviderId(id, runId)
  private val place = s"${id.checkpointRootLocation}/${id.operatorId}/${id.storeName}"
  @volatile private var takesPart = false

  override def recover(manifest: Manifest): Map[(Int, Int), GroupEntries] = {
    takePart()
    if (takesPart) {
      askPredecessors()
      retained.recover(place, manifest)
    } else Map.empty
  }

  /** Until Spark unloads them, which takes up to a minute, their databases use the memory and the
    * threads that the databases of a JVM share.
    */
  override def supersede(): Unit = {
    takePart()
    if (takesPart)
      CompletableFuture.runAsync(() => askPredecessors()): Unit
  }

  // Stores that Spark does not keep for a run are only read, by a DataFrame for instance.
  private def takePart(): Unit = {
    takesPart = seconds > 0 && StateStore.isLoaded(providerId)
    if (takesPart)
      stores.add(this): Unit
  }

  override def retain(manifest: Manifest, entries: Map[(Int, Int), GroupEntries]): Unit =
    if (takesPart) {
      val forget = retained.retain(place, manifest, entries)
      CompletableFuture
        .delayedExecutor(seconds.toLong, TimeUnit.SECONDS)
        .execute(() => forget())
    }

  /** Call it when the store is closed. */
  def end(): Unit =
    stores.remove(this): Unit

  /** Lets earlier stores leave their entries. Each of them is asked once, unless a task has it. */
  private def askPredecessors(): Unit = {
    val deadline = System.nanoTime + WaitNanos
    stores.synchronized(stores.asScala.toVector).filter(isPredecessor).foreach { other =>
      if (other.giveUp(math.max(0, deadline - System.nanoTime) / 1000000)) other.end()
    }
  }

  private def isPredecessor(other: StoreLocalRecovery): Boolean =
    other.place == place && other.providerId.queryRunId != providerId.queryRunId && other.hasEnded

  /** Whether its run has ended, or its task is elsewhere now. Relies on Spark's check before it
    * unloads a provider: it asks the coordinator, which an ending query informs.
    */
  private def hasEnded: Boolean =
    try
      Option(SparkEnv.get).exists { env =>
        !StateStoreCoordinatorRef
          .forExecutor(env)
          .verifyIfInstanceActive(providerId, env.executorId)
      }
    catch { case NonFatal(_) => false }
}

private object StoreLocalRecovery {
  private val retained = new RetainedKeyGroups

  /** How long a store waits for those that it recovers from. A killed task gives up its store soon.
    */
  private final val WaitNanos = 1000000000L

  /** The stores of this JVM that may have something to leave. */
  private val stores = Collections.synchronizedSet(
    Collections.newSetFromMap(new WeakHashMap[StoreLocalRecovery, java.lang.Boolean])
  )
}
