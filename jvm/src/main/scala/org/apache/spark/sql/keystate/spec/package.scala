package org.apache.spark.sql.keystate

/** The declaration of a function: its states, their types and how these may change, and the
  * operator's other state. `Protocol` has the names in the messages between a task and its Python
  * worker; the worker's are in Python's `_protocol`, docs/protocol.md says what they mean, and a
  * test compares the three. Relies on Spark's types and their JSON.
  */
package object spec
