package org.apache.spark.sql.keystate

/** Rows of Spark as bytes and as Arrow, and objects as rows. Relies on `UnsafeRow`'s layout, on
  * Spark's Arrow writers and on its expression encoders. Part of the file format.
  */
package object encoding
