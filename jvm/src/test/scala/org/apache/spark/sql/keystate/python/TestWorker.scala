package org.apache.spark.sql.keystate.python

import java.io.{DataInputStream, DataOutputStream, IOException}
import java.net.{InetSocketAddress, SocketAddress, StandardProtocolFamily, UnixDomainSocketAddress}
import java.nio.channels.{Channels, SocketChannel}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Path, Paths}

import org.json4s.JsonAST.JObject

/** A worker's end of a connection. */
private[keystate] final class TestWorker(address: JObject, channel: SocketChannel)
    extends AutoCloseable {
  channel.connect(TestWorker.socketAddress(address))
  private val in = new DataInputStream(Channels.newInputStream(channel))
  private val out = new DataOutputStream(Channels.newOutputStream(channel))

  def this(address: JObject) = this(address, TestWorker.socket(address))

  def int(value: Int): Unit = out.writeInt(value)
  def frame(text: String): Unit = {
    out.writeInt(text.length)
    out.write(text.getBytes(UTF_8))
  }

  def readInt(): Int = in.readInt()
  def readFrame(): String = {
    val bytes = new Array[Byte](in.readInt())
    in.readFully(bytes)
    new String(bytes, UTF_8)
  }

  /** Says who it is; whether there is such a task. */
  def identify(secret: String): Boolean = {
    frame(secret)
    readInt() == 1
  }

  def ask(question: String, data: String = ""): (String, String) = {
    frame(question)
    frame(data)
    (readFrame(), readFrame())
  }

  /** Waits until the server closes the connection; whether it said nothing before. */
  def isCutOff: Boolean =
    try in.read() < 0
    catch { case _: IOException => true }

  override def close(): Unit = channel.close()
}

private[keystate] object TestWorker {
  def socket(address: JObject): SocketChannel = SocketChannel.open(
    if (path(address).isEmpty) StandardProtocolFamily.INET else StandardProtocolFamily.UNIX
  )

  def path(address: JObject): Option[Path] = address.values.get("path").map {
    case path: String => Paths.get(path)
    case other => throw new AssertionError(other)
  }

  def socketAddress(address: JObject): SocketAddress = path(address) match {
    case Some(path) => UnixDomainSocketAddress.of(path)
    case None =>
      val port = address.values("port").asInstanceOf[BigInt].toInt
      new InetSocketAddress(address.values("host").asInstanceOf[String], port)
  }
}
