package org.apache.spark.sql

/** Keystate within Spark's namespace, for it needs what is private there. In this package itself are
  * only the classes that settings, checkpoints and the Python package name; they never change their
  * names. The packages below have their work. None of it is public API of Scala: that is `keystate`
  * and `keystate.stream`.
  */
package object keystate
