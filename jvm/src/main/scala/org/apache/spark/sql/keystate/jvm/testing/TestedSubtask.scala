package org.apache.spark.sql.keystate.jvm.testing

import java.nio.file.Files
import java.util.Properties

import org.apache.spark.executor.TaskMetrics
import org.apache.spark.memory.TaskMemoryManager
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.{SparkEnv, TaskContext, TaskContextImpl}

import keystate.TimeDomain
import keystate.backend.{Layout, StateFamily}
import keystate.checkpoint.OperatorState
import keystate.keygroup.KeyGroups
import org.apache.spark.sql.keystate.jvm.state.{CurrentKey, JvmBroadcastState, JvmStateSpec}
import org.apache.spark.sql.keystate.operator.{
  BroadcastInput, OpenWindows, OperatorColumns, OperatorTaskContext, OperatorTasks
}
import org.apache.spark.sql.keystate.spec.{OperatorSpec, SchemaEvolution, SystemColumnFamilies}
import org.apache.spark.sql.keystate.state.{BroadcastEntries, FamilyEntries, TimerKeys, Timers}
import org.apache.spark.sql.keystate.store.{BackendLease, StateBackends, SubtaskScope}

/** The part that the subtasks of a micro-batch share.
  *
  * @param operatorStates
  *   the operator states of all subtasks when it began
  * @param broadcast
  *   its broadcast elements; None if nothing is broadcast
  */
private[testing] final class TestedBatch(
    val tasks: OperatorTasks,
    val declared: OperatorSpec,
    val columns: OperatorColumns,
    val times: OperatorTasks.Times,
    val parallelism: Int,
    val operatorStates: Seq[OperatorState],
    val broadcast: Option[BroadcastInput]
)

/** A subtask of an operator, with its own backend. It does the work of a task except for the store:
  * nothing is written, loaded or swept.
  */
private[testing] final class TestedSubtask(index: Int, maxParallelism: Int, backendName: String)
    extends AutoCloseable {
  private val backend = StateBackends
    .configured(backendName, _ => Map.empty)
    .create(maxParallelism, () => Files.createTempDirectory("keystate").toFile)
  private var families = Map.empty[String, StateFamily]
  private val scope = new SubtaskScope

  /** Runs its part of a micro-batch. The changes count once `commit` is called.
    *
    * @param rows
    *   the rows of each input
    */
  def run(batch: TestedBatch, rows: Seq[Seq[InternalRow]])(read: InternalRow => Unit): Unit = {
    import batch.{columns, parallelism, tasks, times}
    val task = newTask(parallelism)
    TaskContext.setTaskContext(task)
    try {
      val spec = batch.declared.continuing(families.get)
      val key = DataTypeUtils.fromAttributes(columns.grouping)
      new OpenWindows(families.values, backend, 0 until maxParallelism, key).check(spec)
      val expired = OperatorTasks.expiries(spec, times, families.get, live = false)
      spec.families.foreach { family =>
        val known = families.get(family.name)
        val ends = expired.get(family.name).fold(Map.empty[String, String])(_.properties.toMap)
        val own =
          family.copy(id = known.fold(families.size)(_.id), properties = family.properties ++ ends)
        if (known.isEmpty) backend.register(own)
        families += family.name -> own
      }
      val context = new OperatorTaskContext(
        index,
        spec,
        columns,
        tasks.batch(streaming = true, parallelism),
        new BackendLease(backend, () => (), s"subtask $index of a test"),
        families.map { case (name, family) => name -> family.id },
        expired,
        scope,
        times.lateRows,
        times.watermark,
        batch.broadcast,
        () => batch.operatorStates
      )
      tasks.begin(context, rows.map(_.iterator))((rows, _) => rows)._2.foreach(read)
    } catch {
      case e: Throwable =>
        task.markTaskFailed(e)
        throw e
    } finally {
      task.markTaskCompleted(None)
      TaskContext.unset()
    }
  }

  private def newTask(parallelism: Int) = new TaskContextImpl(
    0,
    0,
    index,
    0,
    0,
    parallelism,
    new TaskMemoryManager(SparkEnv.get.memoryManager, 0),
    new Properties,
    SparkEnv.get.metricsSystem,
    TaskMetrics.empty,
    1,
    Map.empty
  )

  def commit(): Unit = backend.changesCommitted()

  /** Undoes a micro-batch. The next one opens another function. */
  def rollback(): Unit = {
    backend.rollback()
    scope.close()
  }

  /** The function is let go: the next micro-batch opens another. */
  def restart(): Unit = scope.close()

  /** Entries of these states and timers. */
  def count(names: Seq[String]): Long =
    names.flatMap(families.get).map(f => backend.count(f.id)).sum

  /** The number of timers of a domain. */
  def timers(domain: TimeDomain): Long =
    families.values
      .filter(SystemColumnFamilies.isTimers)
      .toSeq
      .map { family =>
        val ever = Some(Long.MaxValue)
        val keys = TimerKeys.of(family).get
        val found = new Timers(family.id, keys, backend, maxParallelism).upTo(
          ever.filter(_ => domain == TimeDomain.EVENT_TIME),
          ever.filter(_ => domain == TimeDomain.PROCESSING_TIME)
        )
        found.size.toLong
      }
      .sum

  /** The entries of a broadcast state. */
  def broadcastState(declared: JvmStateSpec): Map[Any, Any] =
    families.get(declared.spec.name).fold(Map.empty[Any, Any]) { family =>
      val spec = SchemaEvolution.continue(declared.spec, Some(family))
      val entries = new BroadcastEntries(
        spec,
        FamilyEntries(spec, family.id, backend),
        KeyGroups.operatorGroup(maxParallelism)
      )
      val reader = new CurrentKey
      reader.enterCalls()
      val state = new JvmBroadcastState(declared, reader, () => false)
      state.enter(entries)
      state.entries().map(entry => entry.getKey -> entry.getValue).toMap
    }

  /** All that it has. */
  def held: Seq[HeldFamily] = families.values.toSeq.sortBy(_.id).map { family =>
    val entries = (0 to maxParallelism).flatMap { group =>
      val found = backend.scan(family.id, group, null, null)
      try found.map(entry => HeldEntry(group, entry.key, entry.value)).toVector
      finally found.close()
    }
    HeldFamily(family.name, family.layout.name, family.properties, entries)
  }

  /** Its operator state. None if it has none. */
  def operatorState: Option[OperatorState] = for {
    family <- families.get(OperatorState.FamilyName)
    group = KeyGroups.operatorGroup(maxParallelism)
    state <- Option(backend.get(family.id, group, OperatorState.StateKey))
  } yield OperatorState.fromJson(state)

  /** Takes over its initial state. */
  def restore(held: Seq[HeldFamily]): Unit = {
    held.foreach { each =>
      val family =
        StateFamily(families.size, each.name, Layout.byName(each.layout), each.properties)
      backend.register(family)
      families += family.name -> family
      each.entries.foreach(entry => backend.put(family.id, entry.group, entry.key, entry.value))
    }
    backend.changesCommitted()
  }

  override def close(): Unit = {
    scope.close()
    backend.close()
  }
}
