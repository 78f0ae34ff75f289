package org.apache.spark.sql.keystate

/** Functions in Python: a task's conversation with its worker, message by message; the server that
  * answers the worker's questions; and real-time mode, in which messages go directly over the
  * worker's socket. docs/protocol.md describes the messages. Relies on Spark's
  * `BaseArrowPythonRunner` and on its stock worker.
  */
package object python
