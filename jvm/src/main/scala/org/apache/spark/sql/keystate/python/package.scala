package org.apache.spark.sql.keystate

/** Functions in Python: a task's conversation with its worker, message by message, and the answers
  * to the worker's questions. docs/protocol.md describes the messages. Relies on Spark's
  * `BaseArrowPythonRunner` and on its stock worker.
  */
package object python
