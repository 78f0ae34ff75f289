package org.apache.spark.sql.keystate

/** Makes checkpoints of DataFrames, and changed copies of checkpoints. */
package object edit
