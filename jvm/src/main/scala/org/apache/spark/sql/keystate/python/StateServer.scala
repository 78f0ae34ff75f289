package org.apache.spark.sql.keystate.python

import java.io._
import java.nio.channels.{Channels, ClosedChannelException, SocketChannel}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Path, Paths}
import java.security.MessageDigest
import java.util.Arrays
import java.util.UUID
import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.json4s.JsonAST.{JObject, JString}
import org.json4s.jackson.JsonMethods

import org.apache.spark.SparkEnv
import org.apache.spark.internal.Logging
import org.apache.spark.internal.config.Python.{
  PYTHON_UNIX_DOMAIN_SOCKET_DIR, PYTHON_UNIX_DOMAIN_SOCKET_ENABLED
}

import org.apache.spark.sql.keystate.spec.Protocol

/** Answers workers' questions about state that was too large to be sent ahead. A worker first sends
  * a secret, which identifies its task. When the task is unregistered, its connections are closed.
  *
  * A worker begins with `[int32 length][secret]` and gets an `[int32]`, which says whether there is
  * such a task. A question is
  * `[int32 length][JSON][int32 length][Arrow stream of keys, or nothing]`. An answer has the same
  * form, with the values.
  *
  * @param folder
  *   where to make a Unix domain socket; None for a port of the loopback interface
  */
private[keystate] final class StateServer(
    folder: () => Option[Path],
    mostUnidentified: Int = 256,
    identifyMillis: Long = 5000
) extends Logging {
  import StateServer._

  private val tasks = new ConcurrentHashMap[String, Task]
  private val unidentified = new Unidentified(mostUnidentified, identifyMillis)
  private val listener = new WorkerListener(folder, take)

  /** The data with which a worker connects. */
  def address: JObject = listener.address

  /** Makes a task's state available. Returns the secret that its worker has to know. */
  def register(answerer: Answerer): String = {
    val secret = UUID.randomUUID().toString // its length is SecretLength
    tasks.put(secret, new Task(secret, answerer))
    secret
  }

  /** Ends a task and closes its connections. */
  def unregister(secret: String): Unit = Option(tasks.remove(secret)).foreach(_.end())

  /** For tests. */
  def close(): Unit = listener.close()

  private def take(worker: SocketChannel): Unit = {
    unidentified.add(worker)
    val thread = new Thread(
      () =>
        try serve(worker)
        finally {
          unidentified.remove(worker)
          worker.close()
        },
      "keystate-state-connection"
    )
    thread.setDaemon(true)
    thread.start()
  }

  private def serve(worker: SocketChannel): Unit =
    try {
      val in = new DataInputStream(new BufferedInputStream(Channels.newInputStream(worker)))
      val out = new DataOutputStream(new BufferedOutputStream(Channels.newOutputStream(worker)))
      val secret = readSecret(in)
      if (unidentified.remove(worker)) {
        val task = find(secret).filter(_.connect(worker))
        out.writeInt(if (task.isEmpty) Unknown else Known)
        out.flush()
        task.foreach { task =>
          try while (true) answer(task, in, out)
          finally task.disconnect(worker)
        }
      }
    } catch {
      // The worker has no more questions, its task has ended, or it took too long to say who it is.
      case _: EOFException | _: ClosedChannelException =>
      case NonFatal(e) => logWarning("A worker's state connection broke", e)
    }

  private def answer(task: Task, in: DataInputStream, out: DataOutputStream): Unit = {
    val question = read(in)
    val keys = read(in)
    task.check()
    val (answer, data) =
      try task.answerer(JsonMethods.parse(new String(question, UTF_8)).asInstanceOf[JObject], keys)
      catch {
        case NonFatal(e) =>
          logWarning(s"Failed to answer ${new String(question.take(1000), UTF_8)}", e)
          (JObject(Protocol.Reply.Error -> JString(e.toString)), Array.emptyByteArray)
      }
    write(out, JsonMethods.compact(answer).getBytes(UTF_8))
    write(out, data)
    out.flush()
  }

  /** Compares with every secret to its end, so that the duration reveals nothing about them. */
  private def find(secret: Array[Byte]): Option[Task] =
    tasks.values.asScala.foldLeft(Option.empty[Task]) { (found, task) =>
      if (MessageDigest.isEqual(task.secret, secret)) Some(task) else found
    }
}

private[keystate] object StateServer {

  /** Answers one question: JSON and Arrow keys. The answer is JSON and Arrow data. */
  type Answerer = (JObject, Array[Byte]) => (JObject, Array[Byte])

  /** The server of this JVM. It is never closed. */
  lazy val ofThisJvm: StateServer = new StateServer(() => socketFolder)

  /** The folder of Spark's Unix domain sockets. None unless Spark uses them for Python workers. */
  private def socketFolder: Option[Path] = {
    val conf = SparkEnv.get.conf
    Option.when(conf.get(PYTHON_UNIX_DOMAIN_SOCKET_ENABLED)) {
      Paths.get(
        conf.get(PYTHON_UNIX_DOMAIN_SOCKET_DIR).getOrElse(System.getProperty("java.io.tmpdir"))
      )
    }
  }

  private final val SecretLength = 36

  // The answers to a secret.
  private final val Unknown = 0
  private final val Known = 1

  /** How many bytes are allocated, or passed on, at a time. */
  private final val ChunkBytes = 1 << 20

  private final class Task(name: String, val answerer: Answerer) {
    val secret: Array[Byte] = name.getBytes(UTF_8)
    private var ended = false
    private val connections = ConcurrentHashMap.newKeySet[SocketChannel]

    def connect(worker: SocketChannel): Boolean = synchronized {
      if (!ended) connections.add(worker)
      !ended
    }

    def disconnect(worker: SocketChannel): Unit =
      connections.remove(worker): Unit

    def check(): Unit = if (synchronized(ended)) throw new ClosedChannelException

    def end(): Unit = {
      synchronized { ended = true }
      connections.forEach(_.close())
    }
  }

  /** Any program on this machine can connect, so the announced length is not trusted: it could ask
    * for all memory. Whoever knows a task's secret is the task's worker.
    */
  private def readSecret(in: DataInputStream): Array[Byte] = {
    val length = in.readInt()
    if (length != SecretLength)
      throw new IOException(
        s"A connection to Keystate's state server began with the length $length, not with a task's " +
          "secret: it is not from a worker of this executor"
      )
    val secret = new Array[Byte](length)
    in.readFully(secret)
    secret
  }

  /** Allocates memory for bytes that have come, not for bytes that are only announced. */
  private def read(in: DataInputStream): Array[Byte] = {
    val length = in.readInt()
    if (length < 0)
      throw new IOException(s"A worker announced a message part of $length bytes")
    var bytes = new Array[Byte](math.min(length, ChunkBytes))
    var have = 0
    while (have < length) {
      if (have == bytes.length)
        bytes = Arrays.copyOf(bytes, math.min(length.toLong, 2L * have).toInt)
      val end = math.min(bytes.length, have + ChunkBytes)
      in.readFully(bytes, have, end - have)
      have = end
    }
    bytes
  }

  private def write(out: DataOutputStream, bytes: Array[Byte]): Unit = {
    out.writeInt(bytes.length)
    var from = 0
    while (from < bytes.length) {
      val size = math.min(ChunkBytes, bytes.length - from)
      out.write(bytes, from, size)
      from += size
    }
  }
}
