package org.apache.spark.sql.keystate.python

/** What a conversation with a worker needs in real-time mode: messages and answers go over the
  * worker's socket as soon as there are any.
  */
package object realtime
