package org.apache.spark.sql.keystate

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.keystate.files.OwnedCheckpointFileManager

/** For the setting `spark.sql.streaming.checkpointFileManagerClass`. Spark also uses it for the
  * offset log and its other checkpoint files. Spark makes it by its class name, with this
  * constructor.
  */
class KeystateCheckpointFileManager(path: Path, conf: Configuration)
    extends OwnedCheckpointFileManager(path, conf)
