package org.apache.spark.sql.keystate

/** Logical nodes of Keystate's operators, the strategy that plans them, and the rule that lets
  * Spark's `transformWithState` run on Keystate's provider. Relies on Catalyst's plans and on the
  * extension points of a session.
  */
package object plan
