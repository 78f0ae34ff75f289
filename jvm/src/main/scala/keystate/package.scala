import scala.language.implicitConversions
import scala.reflect.runtime.universe.TypeTag

import org.apache.spark.sql.{Dataset, SparkSession}

/** Flink's keyed state for Spark's Datasets: `import keystate._`, then `data.keyBy(f)`,
  * `data.keyed("column")` or `spark.addSource(function)`.
  */
package object keystate {

  /** Adds `keyed`, `keyBy`, `stream` and `broadcast` to a Dataset. */
  implicit def keyedOps[T](data: Dataset[T]): stream.KeyedOps[T] = new stream.KeyedOps(data)

  /** Adds `addSource` to a session. */
  implicit def sourceOps(session: SparkSession): stream.SourceOps =
    new stream.SourceOps(session)

  /** Flink's name for deriving the type of values of T. */
  def createTypeInformation[T: TypeTag]: TypeInformation[T] = TypeInformation.derived[T]

  /** Flink's entry point for an [[AsyncFunction]]. */
  val AsyncDataStream: stream.AsyncDataStream.type = stream.AsyncDataStream

  /** Patterns of elements, and what is left out after a match. */
  val Pattern: stream.Pattern.type = stream.Pattern
  val AfterMatchSkipStrategy: stream.AfterMatchSkipStrategy.type = stream.AfterMatchSkipStrategy

  // Names for users' declarations; the methods above make instances of them.

  type DataStream[T] = stream.DataStream[T]
  type KeyedStream[T, K] = stream.KeyedStream[T, K]
  type KeyedDataset[T] = stream.KeyedDataset[T]
  type BroadcastStream[B] = stream.BroadcastStream[B]
  type ConnectedKeyedStreams[A, B, K] = stream.ConnectedKeyedStreams[A, B, K]
  type ConnectedKeyedDatasets[A, B] = stream.ConnectedKeyedDatasets[A, B]
  type Pattern = stream.Pattern
  type AfterMatchSkipStrategy = stream.AfterMatchSkipStrategy
  type WindowedStream[T, K, W <: windows.Window] = stream.WindowedStream[T, K, W]
  type WindowedDataset[T, W <: windows.Window] = stream.WindowedDataset[T, W]

  /** The class of Keystate's errors; `code` identifies the error, and docs/errors.md says what to
    * do.
    */
  type KeystateException = errors.KeystateException
}
