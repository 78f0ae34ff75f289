package org.apache.spark.sql.keystate

/** The sink that writes into Kafka exactly once. Tasks write a micro-batch's rows to staged files in
  * the checkpoint; the batch's entry in the commit log names them; then they are published, in
  * Kafka's transactions with a token that says so.
  *
  * Uses only what Kafka's clients promise. They are no part of the jar: only a query with this sink
  * loads these classes.
  */
package object kafka
