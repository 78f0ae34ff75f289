package keystate.stream

import java.time.Duration

import org.apache.spark.sql.{Dataset, SparkSession}

import keystate.{SourceFunction, TypeInformation}
import org.apache.spark.sql.keystate.source.{SourceBridge, SourceSettings}

/** The methods that `import keystate._` adds to a SparkSession. Java makes one with `new`. */
final class SourceOps(session: SparkSession) {

  /** A streaming Dataset of the elements that a source emits. The source's instances run in threads
    * of the driver. Elements of an instance keep their order, in one partition of the input. An
    * invalid function, state or setting is `KEYSTATE_DECLARATION`.
    *
    * @param function
    *   must be a [[keystate.ParallelSourceFunction]] for more than one instance
    * @param parallelism
    *   the number of instances. It may change at a restart: list state is then split again
    * @param maxRowsPerBatch
    *   when the instances have collected this many rows, each an equal share, they wait for the
    *   next micro-batch. A block under the lock may exceed it
    * @param maxBatchDuration
    *   how long a micro-batch collects rows if it isn't full earlier
    * @param availableNowRows
    *   a query with the trigger `AvailableNow` ends after this many rows, even if the source has
    *   not ended; the next query continues there
    * @param availableNowDuration
    *   the same limit, as a duration
    * @param name
    *   the source's name in plans and progress; by default the function's class
    */
  def addSource[T](
      function: SourceFunction[T],
      parallelism: Int = 1,
      maxRowsPerBatch: Int = 100000,
      maxBatchDuration: Duration = Duration.ofMillis(100),
      availableNowRows: Long = 10000000,
      availableNowDuration: Duration = Duration.ofMinutes(10),
      name: Option[String] = None
  )(implicit rowType: TypeInformation[T]): Dataset[T] = SourceBridge.source(
    session,
    function,
    rowType,
    SourceSettings(
      parallelism,
      maxRowsPerBatch,
      maxBatchDuration,
      availableNowRows,
      availableNowDuration,
      name
    )
  )
}
