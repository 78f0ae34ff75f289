package keystate

import keystate.SourceFunction.SourceContext

/** A source with one instance: give it to `spark.addSource`.
  *
  * To keep an offset, be a [[ListCheckpointed]] or a [[CheckpointedFunction]] too. Without state a
  * restarted source begins anew; without a restart nothing is emitted twice. The instance is
  * serialised, and runs in the driver.
  */
trait SourceFunction[T] extends Serializable {

  /** Emits elements until there are no more, or [[cancel]] was called. Called once in a query's run,
    * in a thread of its own, after `initializeState` or `restoreState`, and `open`. If it has
    * returned and the query is started again, it is called again with the state that it had.
    */
  def run(ctx: SourceContext[T]): Unit

  /** Makes [[run]] return soon. Called from another thread when the query stops: a field that both
    * use is to be `@volatile`. After five seconds `run` is interrupted.
    */
  def cancel(): Unit
}

object SourceFunction {

  /** Held while elements are collected and the state is changed that says so. */
  trait CheckpointLock {

    /** Does the block with the lock held: what it collects and changes is in one micro-batch as a
      * whole. It waits first while the micro-batch is full. So keep blocks short, and wait for other
      * systems before a block, not in it.
      *
      * The lock is this object's monitor too, which Java's `synchronized (lock)` takes. But a
      * monitor can be taken again before a waiting snapshot gets it: then a micro-batch has more
      * rows than it may have.
      */
    def synchronized[R](block: => R): R
  }

  /** What [[SourceFunction.run]] emits elements with. */
  trait SourceContext[T] {

    /** Emits an element, as it is now: the object may be used again. Without the lock it is a block
      * of its own, and waits while the micro-batch is full. An element that does not fit its type is
      * a [[KeystateException]], `KEYSTATE_RESULT_TYPE`.
      */
    def collect(element: T): Unit

    /** The lock under which snapshots are taken. */
    def getCheckpointLock: CheckpointLock

    /** Tells that there are no elements now, until the next `collect`. A query with the trigger
      * `AvailableNow` ends when all instances are idle or have returned.
      */
    def markAsTemporarilyIdle(): Unit
  }
}

/** A source with any number of instances; a rich one is told its number in `open`. */
trait ParallelSourceFunction[T] extends SourceFunction[T]

/** A [[SourceFunction]] with a life cycle. It has no keyed state. `open` and `close` are called in
  * the driver, where it runs, and nowhere else.
  */
abstract class RichSourceFunction[T] extends RichFunction with SourceFunction[T]

/** A [[ParallelSourceFunction]] with a life cycle, as a [[RichSourceFunction]]. */
abstract class RichParallelSourceFunction[T] extends RichFunction with ParallelSourceFunction[T]
