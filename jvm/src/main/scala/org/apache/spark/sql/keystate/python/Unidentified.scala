package org.apache.spark.sql.keystate.python

import java.nio.channels.SocketChannel
import java.util.concurrent.TimeUnit

import scala.collection.mutable

import org.apache.spark.util.ThreadUtils

/** Connections whose worker is not identified yet. Any program on the machine can make one. So they
  * get little time, and when there are too many, the oldest is closed. But each has at least
  * `LeastMillis`, which is plenty for a worker: until then no other is accepted. Otherwise a
  * program that connects often enough could have workers closed before they identify themselves.
  */
private[keystate] final class Unidentified(most: Int, timeoutMillis: Long) {
  import Unidentified._

  // When each came in, by System.nanoTime; the oldest is first.
  private val connections = mutable.LinkedHashMap.empty[SocketChannel, Long]
  private val timer =
    ThreadUtils.newDaemonSingleThreadScheduledExecutor("keystate-unidentified")

  /** Waits while there are too many that are new. */
  def add(connection: SocketChannel): Unit = {
    val shed = synchronized {
      while (connections.size >= most && millisLeft(connections.head._2) > 0)
        wait(millisLeft(connections.head._2).max(1))
      val oldest = Option.when(connections.size >= most)(connections.head._1)
      oldest.foreach(connections.remove)
      connections(connection) = System.nanoTime()
      oldest
    }
    shed.foreach(_.close())
    timer.schedule((() => close(connection)): Runnable, timeoutMillis, TimeUnit.MILLISECONDS): Unit
  }

  /** Takes a connection out. False if it was closed meanwhile, and so is no longer to be used. */
  def remove(connection: SocketChannel): Boolean = synchronized {
    val wasThere = connections.remove(connection).isDefined
    if (wasThere) notifyAll()
    wasThere
  }

  private def millisLeft(since: Long): Long =
    LeastMillis - (System.nanoTime() - since) / 1000000

  private def close(connection: SocketChannel): Unit = if (remove(connection)) connection.close()
}

private object Unidentified {
  private final val LeastMillis = 200L
}
