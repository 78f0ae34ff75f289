package org.apache.spark.sql.keystate

/** Functions in Python: the conversation of a task with its worker, message by message, and the
  * answers to the worker's questions. docs/protocol.md has the messages. Relies on Spark's
  * `BaseArrowPythonRunner` and its stock worker.
  */
package object python
