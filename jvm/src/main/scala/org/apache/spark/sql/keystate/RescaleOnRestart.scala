package org.apache.spark.sql.keystate

import org.apache.spark.sql.keystate.rescale.RestartListener

/** Takes and rescales a checkpoint when its query starts. Set as one of
  * `spark.sql.streaming.streamingQueryListeners`; Spark makes it by its name.
  */
class RescaleOnRestart extends RestartListener
