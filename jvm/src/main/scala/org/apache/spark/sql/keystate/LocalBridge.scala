package org.apache.spark.sql.keystate

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.keystate.checkpoint.CheckpointReader

/** The calls of the Python package that need no Spark job, in a JVM in which Spark does not run:
  * the `keystate` command starts it in a fraction of the time. It is for checkpoints in the local
  * file system.
  */
object LocalBridge extends CheckpointReader(new Configuration)
