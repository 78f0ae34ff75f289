package org.apache.spark.sql.keystate

/** What a function declares: its states, their types and how these may change, and what an operator
  * keeps besides. Relies on Spark's types and their JSON.
  */
package object spec
