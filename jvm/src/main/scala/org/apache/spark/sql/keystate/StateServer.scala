package org.apache.spark.sql.keystate

import java.io.{BufferedOutputStream, DataInputStream, DataOutputStream, EOFException, IOException}
import java.net.{InetAddress, ServerSocket, Socket}
import java.nio.charset.StandardCharsets.UTF_8
import java.util.UUID
import java.util.concurrent.ConcurrentHashMap

import scala.util.Using
import scala.util.control.NonFatal

import org.json4s.JsonAST.{JObject, JString}
import org.json4s.jackson.JsonMethods

import org.apache.spark.internal.Logging

/** Answers what Python workers ask of state that was too large to be sent ahead. One server a JVM,
  * on a loopback port; a task is found by the secret that the worker says first.
  *
  * A question is `[int32 length][JSON][int32 length][Arrow stream of keys, or nothing]`, an answer
  * the same with the values.
  */
private[keystate] object StateServer extends Logging {

  /** Answers one question: what is asked, and Arrow keys. */
  type Answerer = (JObject, Array[Byte]) => (JObject, Array[Byte])

  private val SecretLength = 36

  private val tasks = new ConcurrentHashMap[String, Answerer]

  private lazy val server: ServerSocket = {
    val socket = new ServerSocket(0, 50, InetAddress.getLoopbackAddress)
    daemon("keystate-state-server") {
      while (!socket.isClosed) {
        val worker = socket.accept()
        daemon("keystate-state-connection")(serve(worker))
      }
    }
    socket
  }

  def port: Int = server.getLocalPort

  /** Makes a task's state available; the secret is what its worker has to know. */
  def register(answerer: Answerer): String = {
    val secret = UUID.randomUUID().toString // of SecretLength
    tasks.put(secret, answerer)
    secret
  }

  def unregister(secret: String): Unit = { tasks.remove(secret); () }

  private def daemon(name: String)(body: => Unit): Unit = {
    val thread = new Thread(() => body, name)
    thread.setDaemon(true)
    thread.start()
  }

  private def serve(worker: Socket): Unit =
    try {
      Using.resource(worker) { socket =>
        socket.setTcpNoDelay(true)
        val in = new DataInputStream(socket.getInputStream)
        val out = new DataOutputStream(new BufferedOutputStream(socket.getOutputStream))
        val secret = readSecret(in)
        var answerer = tasks.get(secret)
        while (answerer != null) {
          val question = JsonMethods.parse(new String(read(in), UTF_8)).asInstanceOf[JObject]
          val keys = read(in)
          val (answer, data) =
            try answerer(question, keys)
            catch {
              case NonFatal(e) =>
                logWarning(s"Failed to answer $question", e)
                (JObject("error" -> JString(e.toString)), Array.emptyByteArray)
            }
          write(out, JsonMethods.compact(answer).getBytes(UTF_8))
          write(out, data)
          out.flush()
          answerer = tasks.get(secret)
        }
      }
    } catch {
      case _: EOFException => // the worker has asked all it wanted
      case NonFatal(e) => logWarning("A worker's state connection broke", e)
    }

  /** Any program on this machine can connect, so what it says first is not believed: a length could
    * ask for all memory. Whoever knows a task's secret is the task's worker.
    */
  private def readSecret(in: DataInputStream): String = {
    val length = in.readInt()
    if (length != SecretLength)
      throw new IOException(
        s"A connection to Keystate's state server began with the length $length, not with a task's " +
          "secret: it is not from a worker of this executor"
      )
    new String(in.readNBytes(length), UTF_8)
  }

  private def read(in: DataInputStream): Array[Byte] = {
    val bytes = new Array[Byte](in.readInt())
    in.readFully(bytes)
    bytes
  }

  private def write(out: DataOutputStream, bytes: Array[Byte]): Unit = {
    out.writeInt(bytes.length)
    out.write(bytes)
  }
}
