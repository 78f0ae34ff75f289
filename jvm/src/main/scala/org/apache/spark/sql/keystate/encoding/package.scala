package org.apache.spark.sql.keystate

/** Turns Spark's rows into bytes and Arrow, and objects into rows. Relies on the byte format of
  * `UnsafeRow`, on Spark's Arrow writers and on its expression encoders. Part of the file format.
  */
package object encoding
