package org.apache.spark.sql.keystate

import org.apache.spark.sql.keystate.rescale.RestartListener

/** Takes ownership of a checkpoint when its query starts, and rescales it. Set as one of
  * `spark.sql.streaming.streamingQueryListeners`. Spark makes it by its class name.
  */
class RescaleOnRestart extends RestartListener
