package keystate.stream

import java.time.Duration

import org.apache.spark.sql.{Dataset, SparkSession}

import keystate.{SourceFunction, TypeInformation}
import org.apache.spark.sql.keystate.source.{SourceBridge, SourceSettings}

/** What `import keystate._` adds to a SparkSession. Java makes one with `new`. */
final class SourceOps(session: SparkSession) {

  /** A streaming Dataset of what a source emits. Its instances run in threads of the driver. Elements
    * of an instance stay in their order, in one partition of the input. A function, a state or a
    * setting that can't be is `KEYSTATE_DECLARATION`.
    *
    * @param function
    *   for more than one instance a [[keystate.ParallelSourceFunction]]
    * @param parallelism
    *   the number of instances. May change at a restart: list state is then dealt out anew
    * @param maxRowsPerBatch
    *   when the instances have collected so many rows, a share each, they wait for the next
    *   micro-batch. A block under the lock may exceed it
    * @param maxBatchDuration
    *   how long a micro-batch collects rows if it isn't full before
    * @param availableNowRows
    *   after so many rows a query with the trigger `AvailableNow` ends, though the source has not;
    *   the next query goes on from there
    * @param availableNowDuration
    *   after so long likewise
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
