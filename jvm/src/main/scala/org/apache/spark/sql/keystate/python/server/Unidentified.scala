package org.apache.spark.sql.keystate.python.server

import java.nio.channels.SocketChannel
import java.util.concurrent.TimeUnit

import scala.collection.mutable

import org.apache.spark.util.ThreadUtils

/** Connections that have not said yet which task's worker they are. Any program on the machine can
  * make one. So they get little time, and when there are too many, the oldest is closed.
  */
private[keystate] final class Unidentified(most: Int, timeoutMillis: Long) {
  private val connections = mutable.LinkedHashSet.empty[SocketChannel]
  private val timer =
    ThreadUtils.newDaemonSingleThreadScheduledExecutor("keystate-unidentified")

  def add(connection: SocketChannel): Unit = {
    val shed = synchronized {
      connections += connection
      Option.when(connections.size > most) {
        val oldest = connections.head
        connections -= oldest
        oldest
      }
    }
    shed.foreach(_.close())
    timer.schedule((() => close(connection)): Runnable, timeoutMillis, TimeUnit.MILLISECONDS)
    ()
  }

  /** Takes a connection out. False if it was closed meanwhile, and so is no longer to be used. */
  def remove(connection: SocketChannel): Boolean = synchronized(connections.remove(connection))

  private def close(connection: SocketChannel): Unit = if (remove(connection)) connection.close()
}
