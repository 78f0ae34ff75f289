package org.apache.spark.sql.keystate

/** Logical nodes of Keystate's operators, the strategy that plans them, and the rules that let Spark's
  * `transformWithState` run on Keystate's provider and that keep the watermarks of several operators.
  * Relies on Catalyst's plans and on the extension points of a session.
  */
package object plan
