package org.apache.spark.sql.keystate

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.keystate.files.OwnedCheckpointFileManager

/** For the setting `spark.sql.streaming.checkpointFileManagerClass`, which also the offset log and
  * Spark's other checkpoint files go by. Spark makes it by its name and this constructor.
  */
class KeystateCheckpointFileManager(path: Path, conf: Configuration)
    extends OwnedCheckpointFileManager(path, conf)
