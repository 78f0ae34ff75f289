package org.apache.spark.sql.keystate.python

/** The names that a task and its Python worker speak with. The worker's are in
  * `keystate/_worker/protocol.py`, and docs/protocol.md says what they mean; a test holds the three
  * against each other. It uses nothing.
  */
package object protocol
