package org.apache.spark.sql.keystate.python

import java.io.IOException
import java.net.StandardSocketOptions.TCP_NODELAY
import java.net.{InetAddress, InetSocketAddress, StandardProtocolFamily, UnixDomainSocketAddress}
import java.nio.channels.{ClosedChannelException, ServerSocketChannel, SocketChannel}
import java.nio.file.attribute.PosixFilePermissions
import java.nio.file.{Files, Path}

import org.json4s.JsonAST.{JObject, JString}
import org.json4s.JsonDSL._

import org.apache.spark.internal.Logging
import org.apache.spark.util.{ShutdownHookManager, Utils}

import org.apache.spark.sql.keystate.spec.Protocol

/** Listens for workers. It continues after errors: if it can't accept connections for a while, it
  * tries again; if its socket is gone, the next task gets another.
  *
  * @param folder
  *   where to make a Unix domain socket, in a new folder that only this user may enter; None for a
  *   port of the loopback interface
  * @param take
  *   takes over a connection, and returns immediately
  */
private[keystate] final class WorkerListener(
    folder: () => Option[Path],
    take: SocketChannel => Unit
) extends Logging {
  import WorkerListener._

  private var listening: Listening = _

  /** The data with which a worker connects: a path, or a host and a port. */
  def address: JObject = synchronized {
    val wanted = folder()
    if (listening == null || listening.wanted != wanted || !listening.isServing) {
      if (listening != null) {
        if (listening.wanted == wanted)
          logWarning(s"The state server's ${listening.socket.description} is gone: opening another")
        listening.close()
      }
      listening = new Listening(wanted, open(wanted))
      listening.start()
    }
    listening.socket.address
  }

  def close(): Unit = synchronized(if (listening != null) listening.close())

  private def open(folder: Option[Path]): ServerSocket = folder match {
    case None => loopback()
    case Some(parent) =>
      try unixDomain(parent)
      catch {
        // There are no such sockets here, or the path is longer than the system allows.
        case e @ (_: IOException | _: UnsupportedOperationException) =>
          logWarning(s"No Unix domain socket can be made in $parent: using a port instead", e)
          loopback()
      }
  }

  private final class Listening(val wanted: Option[Path], val socket: ServerSocket)
      extends Thread("keystate-state-server") {
    setDaemon(true)

    def isServing: Boolean =
      isAlive && socket.channel.isOpen && socket.path.forall(Files.exists(_))

    override def run(): Unit = {
      var pause = 0L
      while (socket.channel.isOpen)
        try {
          accept()
          if (pause > 0) warn("The state server accepts connections again", null)
          pause = 0
        } catch {
          case _: ClosedChannelException =>
          // This passes: too many files are open, so that not even a class can be loaded, or no
          // thread can be started.
          case e: Throwable =>
            if (pause == 0) warn("The state server can't accept a connection: trying again", e)
            pause = math.min(math.max(FirstPauseMillis, 2 * pause), LongestPauseMillis)
            Thread.sleep(pause)
        }
    }

    /** One call for both warnings: a call that once could not load a class can't for ever, and when the
      * second warning comes there may still be no descriptor for that.
      */
    private def warn(text: String, e: Throwable): Unit =
      try logWarning(text, e)
      catch { case _: Throwable => } // a class can't be loaded, as above

    private def accept(): Unit = {
      val worker = socket.channel.accept()
      try {
        if (worker.supportedOptions.contains(TCP_NODELAY))
          worker.setOption(TCP_NODELAY, Boolean.box(true))
        take(worker)
      } catch {
        case e: Throwable =>
          worker.close()
          throw e
      }
    }

    def close(): Unit = {
      socket.channel.close()
      socket.path.foreach(path => Utils.deleteRecursively(path.getParent.toFile))
    }
  }
}

private[keystate] object WorkerListener {
  private final val FirstPauseMillis = 10L
  private final val LongestPauseMillis = 1000L
  private final val Backlog = 128

  /** @param path
    *   the path of a Unix domain socket; None for a port
    */
  private final class ServerSocket(
      val channel: ServerSocketChannel,
      val address: JObject,
      val path: Option[Path]
  ) {
    def description: String = path.fold("port")(path => s"socket $path")
  }

  /** A port of the loopback interface. Workers get its IP address, because `localhost` can also be
    * ::1.
    */
  private def loopback(): ServerSocket = {
    val any = 0
    val ipv4 = InetAddress.getByAddress(Array[Byte](127, 0, 0, 1))
    val channel =
      try bound(StandardProtocolFamily.INET, new InetSocketAddress(ipv4, any))
      catch {
        // The machine has no IPv4 loopback.
        case _: IOException | _: UnsupportedOperationException =>
          bound(
            StandardProtocolFamily.INET6,
            new InetSocketAddress(InetAddress.getByName("::1"), any)
          )
      }
    val local = channel.getLocalAddress.asInstanceOf[InetSocketAddress]
    val address =
      (Protocol.Server.Host -> local.getAddress.getHostAddress) ~ (Protocol.Server.Port -> local.getPort)
    new ServerSocket(channel, address, None)
  }

  private def unixDomain(parent: Path): ServerSocket = {
    val onlyOwner =
      PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------"))
    val folder = Files.createTempDirectory(parent, "keystate-", onlyOwner)
    try {
      val path = folder.resolve("state.sock")
      val channel = bound(StandardProtocolFamily.UNIX, UnixDomainSocketAddress.of(path))
      ShutdownHookManager.registerShutdownDeleteDir(folder.toFile)
      new ServerSocket(channel, JObject(Protocol.Server.Path -> JString(path.toString)), Some(path))
    } catch {
      case e: Throwable =>
        Utils.deleteRecursively(folder.toFile)
        throw e
    }
  }

  private def bound(family: StandardProtocolFamily, address: java.net.SocketAddress) = {
    val channel = ServerSocketChannel.open(family)
    try channel.bind(address, Backlog)
    catch {
      case e: Throwable =>
        channel.close()
        throw e
    }
  }
}
