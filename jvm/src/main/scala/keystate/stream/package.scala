package keystate

/** Datasets with their rows sent to the subtasks of an operator: what `data.keyed(...)`,
  * `data.keyBy(...)`, `data.stream` and `data.broadcast(...)` give. Public API. It hands plans and
  * functions to `org.apache.spark.sql.keystate.jvm`.
  */
package object stream
