package org.apache.spark.sql

/** Keystate within Spark's namespace, because it needs classes that are private to that namespace.
  * This package itself has only the classes that settings, checkpoints and the Python package name.
  * Their names never change. The packages below do the work. None of it is public API for Scala:
  * that is `keystate` and `keystate.stream`.
  */
package object keystate
