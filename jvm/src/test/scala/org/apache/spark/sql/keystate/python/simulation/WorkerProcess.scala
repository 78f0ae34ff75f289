package org.apache.spark.sql.keystate.python.simulation

import java.io.{BufferedInputStream, BufferedOutputStream, DataInputStream, DataOutputStream, File}
import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8

import org.json4s.JsonAST.JValue
import org.json4s.jackson.JsonMethods

/** A Python process that runs the tasks that it is told of, with the worker's real code:
  * `tests/conversation/worker.py`. It is at work only in calls of this class.
  *
  * @param faults
  *   put into its code on purpose
  */
private[simulation] final class WorkerProcess(faults: Seq[String] = Nil) extends AutoCloseable {
  import WorkerProcess._

  private val process = {
    val command = Seq(python.getPath, "-m", "tests.conversation.worker") ++ faults
    val builder = new ProcessBuilder(command: _*)
    builder.environment.put("PYTHONHASHSEED", "0") // the order of sets
    builder.directory(root).redirectError(ProcessBuilder.Redirect.INHERIT).start()
  }
  private val in = new DataInputStream(new BufferedInputStream(process.getInputStream))
  private val out = new DataOutputStream(new BufferedOutputStream(process.getOutputStream))

  /** What it said when it started: the operator. */
  val declared: JValue = {
    val (kind, content) = read()
    assert(kind == 'D')
    JsonMethods.parse(new String(content, UTF_8))
  }

  /** Sends a frame, and lets the worker work until it waits, or its task is over.
    *
    * @param answers
    *   takes the bytes of answers
    * @param asked
    *   takes a question
    */
  def run(
      kind: Char,
      content: Array[Byte]
  )(answers: Array[Byte] => Unit, asked: Array[Byte] => Unit): Waits = {
    out.writeByte(kind.toInt)
    out.writeInt(content.length)
    out.write(content)
    out.flush()
    var waits: Waits = null
    while (waits == null) {
      val (kind, content) = read()
      kind match {
        case 'O' => answers(content)
        case 'S' => asked(content)
        case 'X' =>
        case 'I' => waits = ForMessages(ByteBuffer.wrap(content).getInt)
        case 'R' => waits = ForReply(ByteBuffer.wrap(content).getInt)
        case 'C' => waits = ToConnect
        case 'D' => waits = Done
        case 'E' => waits = Failed(new String(content, UTF_8))
      }
    }
    waits
  }

  private def read(): (Char, Array[Byte]) = {
    val kind = in.readByte().toChar
    val content = new Array[Byte](in.readInt())
    in.readFully(content)
    (kind, content)
  }

  override def close(): Unit = {
    out.close()
    process.waitFor()
    ()
  }
}

private[simulation] object WorkerProcess {

  /** What a worker waits for. */
  sealed trait Waits
  final case class ForMessages(bytes: Int) extends Waits
  final case class ForReply(bytes: Int) extends Waits
  case object ToConnect extends Waits
  case object Done extends Waits
  final case class Failed(error: String) extends Waits

  /** The folder of the sources. */
  private val root = Iterator
    .iterate(new File("").getAbsoluteFile)(_.getParentFile)
    .takeWhile(_ != null)
    .find(new File(_, "build.sbt").exists)
    .get

  private def python = {
    val line = sys.env.get("SPARK").filter(_.nonEmpty).map(line => s".venv-spark$line")
    (line.toSeq :+ ".venv")
      .map(venv => new File(root, s"$venv/bin/python"))
      .find(_.exists)
      .getOrElse(throw new IllegalStateException("there is no Python: make install"))
  }
}
