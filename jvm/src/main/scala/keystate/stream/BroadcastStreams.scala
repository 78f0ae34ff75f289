package keystate.stream

import org.apache.spark.sql.Dataset

import keystate.{BroadcastProcessFunction, KeyedBroadcastProcessFunction, TypeInformation}
import org.apache.spark.sql.keystate.jvm.BroadcastData

/** A Dataset to broadcast; made by `data.broadcast(descriptors)`, and passed to `connect`. */
final class BroadcastStream[B] private[keystate] (private[keystate] val inputs: BroadcastData)

/** A stream without keys and a broadcast stream. */
final class BroadcastConnectedStream[T, B] private[keystate] (
    rows: DataStream[T],
    broadcast: BroadcastStream[B]
) {

  /** The function's results. Fails as [[KeyedStream.process]] does. Also `KEYSTATE_DECLARATION`
    * when a stream is broadcast to a batch Dataset, and when the function is also a
    * [[keystate.CheckpointedFunction]] or [[keystate.CheckpointListener]].
    */
  def process[OUT](function: BroadcastProcessFunction[T, B, OUT])(implicit
      out: TypeInformation[OUT]
  ): Dataset[OUT] = rows.run(function, None, out, Some(broadcast.inputs))
}

/** A stream keyed by a function and a broadcast stream. */
final class BroadcastConnectedKeyedStream[T, K, B] private[keystate] (
    rows: KeyedStream[T, K],
    keyType: TypeInformation[K],
    broadcast: BroadcastStream[B]
) {

  /** The function's results. Fails as [[KeyedStream.process]] does. Also `KEYSTATE_DECLARATION`
    * when a stream is broadcast to a batch Dataset, and when the function is also a
    * [[keystate.CheckpointedFunction]] or [[keystate.CheckpointListener]].
    */
  def process[OUT](function: KeyedBroadcastProcessFunction[K, T, B, OUT])(implicit
      out: TypeInformation[OUT]
  ): Dataset[OUT] = rows.run(function, Some(keyType), out, Some(broadcast.inputs))
}

/** A stream keyed by columns and a broadcast stream. */
final class BroadcastConnectedKeyedDataset[T, B] private[keystate] (
    rows: KeyedDataset[T],
    broadcast: BroadcastStream[B]
) {

  /** The function's results. Fails as [[KeyedStream.process]] does. Also `KEYSTATE_DECLARATION`
    * when a stream is broadcast to a batch Dataset, and when the function is also a
    * [[keystate.CheckpointedFunction]] or [[keystate.CheckpointListener]].
    *
    * @tparam K
    *   the type of the one key column; for several key columns, a `Row`, tuple or case class
    */
  def process[K, OUT](
      function: KeyedBroadcastProcessFunction[K, T, B, OUT]
  )(implicit keyType: TypeInformation[K], out: TypeInformation[OUT]): Dataset[OUT] =
    rows.run(function, Some(keyType), out, Some(broadcast.inputs))
}
