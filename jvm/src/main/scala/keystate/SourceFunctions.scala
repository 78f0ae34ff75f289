package keystate

import keystate.SourceFunction.SourceContext

/** A source with one instance; pass it to `spark.addSource`.
  *
  * To keep an offset, also extend [[ListCheckpointed]] or [[CheckpointedFunction]]. Without state a
  * restarted source starts from scratch; without a restart nothing is emitted twice. The instance
  * is serialised, and runs in the driver.
  */
trait SourceFunction[T] extends Serializable {

  /** Emits elements until there are no more, or until [[cancel]] is called. Called once in a
    * query's run, in its own thread, after `initializeState` or `restoreState`, and `open`. If it
    * has returned and the query is started again, it is called again with its last state.
    */
  def run(ctx: SourceContext[T]): Unit

  /** Makes [[run]] return soon. Another thread calls it when the query stops: make a field that
    * both use `@volatile`. After five seconds `run` is interrupted.
    */
  def cancel(): Unit
}

object SourceFunction {

  /** The lock to hold while collecting elements and changing the state that records them. */
  trait CheckpointLock {

    /** Runs the block with the lock held: all its elements and state changes are in one
      * micro-batch. It first waits while the micro-batch is full. So keep blocks short, and wait
      * for other systems before a block, not in it.
      *
      * The lock is also this object's monitor, which Java's `synchronized (lock)` takes. But a
      * thread can take a monitor again before a waiting snapshot gets it: then a micro-batch has
      * more rows than its limit.
      */
    def synchronized[R](block: => R): R
  }

  /** The context that [[SourceFunction.run]] emits elements with. */
  trait SourceContext[T] {

    /** Emits a copy of an element: the object may be used again. Without the lock the call is a
      * block of its own, and waits while the micro-batch is full. An element that does not fit its
      * type is a [[KeystateException]], `KEYSTATE_RESULT_TYPE`.
      */
    def collect(element: T): Unit

    /** The lock that snapshots take. */
    def getCheckpointLock: CheckpointLock

    /** Declares that there are no elements until the next `collect`. A query with the trigger
      * `AvailableNow` ends when all instances are idle or have returned.
      */
    def markAsTemporarilyIdle(): Unit
  }
}

/** A source with any number of instances; a rich source gets its instance's number in `open`. */
trait ParallelSourceFunction[T] extends SourceFunction[T]

/** A [[SourceFunction]] with a life cycle. It has no keyed state. `open` and `close` are called
  * only in the driver, where it runs.
  */
abstract class RichSourceFunction[T] extends RichFunction with SourceFunction[T]

/** A [[ParallelSourceFunction]] with a life cycle, like [[RichSourceFunction]]. */
abstract class RichParallelSourceFunction[T] extends RichFunction with ParallelSourceFunction[T]
