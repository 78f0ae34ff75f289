package org.apache.spark.sql.keystate

/** Makes checkpoints of others: savepoints, forks, and imports of Spark's. */
package object copies
