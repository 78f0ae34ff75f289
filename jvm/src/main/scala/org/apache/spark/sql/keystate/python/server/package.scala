package org.apache.spark.sql.keystate.python

/** The server that a worker asks while it works on a message: sockets, secrets and limits. It knows
  * nothing of states: whoever registers gives the answers.
  */
package object server
