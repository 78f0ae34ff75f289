package org.apache.spark.sql.keystate.source

import java.io.IOException
import java.nio.channels.ClosedChannelException
import java.nio.charset.StandardCharsets.UTF_8

import net.razorvine.pickle.Unpickler
import org.json4s._
import org.json4s.jackson.JsonMethods.{compact, parse, render}

import org.apache.spark.api.python.{PythonFunction => PickledFunction}
import org.apache.spark.sql.execution.python.streaming.PythonStreamingSourceRunner
import org.apache.spark.sql.types.StructType

import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.shim.SourceShim

/** Runs a source's function in a Python process.
  *
  * Relies on `PythonStreamingSourceRunner`, which starts the process and calls the methods of a
  * `DataSourceStreamReader` in it. Here their arguments and results carry more than offsets; see
  * `keystate/_worker/sources/process.py`.
  *
  * @param reader
  *   a pickled `pyspark.sql.datasource.DataSource`
  */
private[keystate] final class PythonSource(name: String, rows: StructType, reader: PickledFunction)
    extends SourceFactory {
  override def create(): SourceSession = new Run

  private final class Run extends SourceSession {
    private var runner: Option[PythonStreamingSourceRunner] = None

    override def begin(batch: Long, restored: Option[Array[Byte]]): Unit = {
      val started = new PythonStreamingSourceRunner(reader, rows)
      runner = Some(started)
      started.init()
      val header = restored.fold[JValue](JNull)(bytes => JString(new String(bytes, UTF_8)))
      ask(JObject("begin" -> JInt(batch), "restored" -> header)): Unit
    }

    override def await(): Collected = ask(JObject())

    private def ask(request: JObject): Collected = {
      val answer = parse(calling(SourceShim.ask(_, compact(render(request)))))
      (answer \ "rows", answer \ "waiting") match {
        case (JInt(number), JBool(waiting)) => Collected(number.toLong, waiting)
        case _ => throw new IllegalStateException(s"Source $name answered $answer")
      }
    }

    override def cut(batch: Long): CutBatch = {
      val unpickler = new Unpickler
      val parts = calling(_.partitions("{}", numbered(batch)))._1.toSeq.map { pickled =>
        unpickler.loads(pickled).asInstanceOf[Array[Byte]]
      }
      CutBatch(parts.head, parts.tail)
    }

    override def committed(batch: Long): Unit = calling(_.commit(numbered(batch)))

    private def numbered(batch: Long) = compact(render(JObject("batch" -> JInt(batch))))

    private def calling[T](call: PythonStreamingSourceRunner => T): T =
      try call(runner.get)
      catch {
        // When the query is stopped, this thread is interrupted, and so the channel is closed.
        case e: ClosedChannelException => throw e
        case e: IOException => throw KeystateErrors.sourceDied(name, e)
      }

    override def stop(): Unit = runner.foreach(_.stop())
  }
}
