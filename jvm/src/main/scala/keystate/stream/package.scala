package keystate

/** Datasets whose rows go to the subtasks of an operator: `data.keyed(...)`, `data.keyBy(...)`,
  * `data.stream` and `data.broadcast(...)` return them. Public API. It passes plans and functions
  * to `org.apache.spark.sql.keystate.jvm`.
  */
package object stream
