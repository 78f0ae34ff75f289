package org.apache.spark.sql.keystate.python

/** The names in what a task and its Python worker say to each other. The worker's are in
  * `keystate/_protocol.py`. docs/protocol.md says what they mean. A test compares the three.
  * This package uses no other.
  */
package object protocol
