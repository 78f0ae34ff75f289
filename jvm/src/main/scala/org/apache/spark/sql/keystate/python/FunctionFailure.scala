package org.apache.spark.sql.keystate.python

import java.io.{PrintStream, PrintWriter}

import org.apache.spark.TaskKilledException
import org.apache.spark.api.python.PythonException

import org.apache.spark.sql.keystate.shim.WorkerErrorShim

/** An error of the user's function, which a worker raised: its message is Keystate's, with the lines
  * of the user's code.
  *
  * It has no stack of the JVM, which would be the same for any error of a function. Spark logs a
  * task's error five times and more: log4j prints the localized message, which is one line, and the
  * scheduler's "Lost task" what `printStackTrace` prints, which is all. Spark's own logs of an error
  * rely on just these methods.
  */
private[keystate] final class FunctionFailure(text: String) extends WorkerErrorShim(text) {

  /** It ends its last line, behind which Spark puts a SQLSTATE. */
  override def getMessage: String = text + "\n"

  override def getLocalizedMessage: String = FunctionFailure.inOneLine(text)
  override def fillInStackTrace(): Throwable = this
  override def getStackTrace: Array[StackTraceElement] = Array.empty
  override def setStackTrace(stack: Array[StackTraceElement]): Unit = ()
  override def printStackTrace(out: PrintStream): Unit = out.println(text)
  override def printStackTrace(out: PrintWriter): Unit = out.println(text)
}

private[keystate] object FunctionFailure {

  /** The first line of Keystate's own error behind the frames that led there, which are indented. */
  private val OwnError = """(?m)^keystate\.errors\.(?=\w+: \[KEYSTATE_)""".r

  /** What Spark puts behind the worker's text. */
  private val SqlState = """\s*SQLSTATE: \w+\s*$""".r

  private val Frame = """(?m)^  File "(?:.*[/\\])?(.+)", line (\d+), in (.+)$""".r

  /** Reads from a worker. Its errors, and what another task's error does to this one, come in few
    * lines.
    */
  def told[T](read: => T): T =
    try read
    catch {
      case error: PythonException if error.getCause == null => throw of(error)
      case error: TaskKilledException if error.reason.contains("[KEYSTATE_") =>
        val killed = new TaskKilledException(error.reason.linesIterator.next())
        killed.setStackTrace(Array.empty)
        throw killed
    }

  /** The same error, without the frames of Keystate if it is Keystate's. */
  private def of(error: PythonException): Throwable = {
    val text = error.getMessage
    OwnError
      .findFirstMatchIn(text)
      .fold[Throwable](error) { found =>
        new FunctionFailure(SqlState.replaceFirstIn(text.substring(found.end), ""))
      }
  }

  /** The first line of a message, with the last line of the user's code. */
  private def inOneLine(text: String): String = {
    val at = Frame.findAllMatchIn(text).foldLeft("") { (_, frame) =>
      s" (${frame.group(1)}, line ${frame.group(2)}, in ${frame.group(3)})"
    }
    text.linesIterator.next() + at
  }
}
