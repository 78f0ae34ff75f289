package org.apache.spark.sql.keystate

/** What a function declares: its states, their types and how these may change, and what an operator
  * keeps besides. `Protocol` has the names in what a task and its Python worker say to each other;
  * the worker's are in Python's `_protocol`, docs/protocol.md says what they mean, and a test
  * compares the three. Relies on Spark's types and their JSON.
  */
package object spec
