package org.apache.spark.sql.keystate.source

import java.nio.charset.StandardCharsets.UTF_8

import scala.util.control.NonFatal

import org.json4s._
import org.json4s.jackson.JsonMethods.{compact, parse, render}

import keystate.SourceFunction
import keystate.checkpoint.{OperatorList, OperatorState, RestoredOperatorState}
import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.jvm.state.JvmOperatorStateSpec
import org.apache.spark.sql.keystate.jvm.{JvmFunction, Outputs}

/** A source as it was declared.
  *
  * @param function
  *   the serialised function; each instance has a copy of its own
  * @param maxBatchNanos
  *   how long a batch that is not full collects rows
  */
private[source] final case class JvmSource(
    name: String,
    function: Array[Byte],
    output: Outputs,
    declared: JvmOperatorStateSpec,
    parallelism: Int,
    maxRowsPerBatch: Int,
    maxBatchNanos: Long
) extends SourceFactory {
  override def create(): SourceSession = new JvmSourceSession(this)
}

/** The instances of a source, and the batches that they are cut into. */
private final class JvmSourceSession(source: JvmSource) extends SourceSession {
  import JvmSourceSession._

  private var instances = Vector.empty[SourceInstance]
  private var began = System.nanoTime() // when the current batch began

  override def begin(batch: Long, restored: Option[Array[Byte]]): Unit = {
    val of = source.parallelism
    val states = restored.map(header => dealtOut(statesIn(batch, header)))
    (0 until of).foreach { index =>
      val instance = new SourceInstance(
        s"${source.name} (${index + 1}/$of)",
        JvmFunction.deserialize(source.function).asInstanceOf[SourceFunction[Any]],
        source.output,
        source.declared,
        states.map(_(index)),
        new SourceRuntimeContext(source.name, index, of),
        source.maxRowsPerBatch / of
      )
      instances :+= instance
      instance.open()
    }
    instances.foreach(_.start())
    began = System.nanoTime()
  }

  /** The state of each instance, when their number may have changed. */
  private def dealtOut(old: Seq[OperatorState]): Seq[RestoredOperatorState] = {
    val parts =
      if (old.size == source.parallelism) old
      else OperatorState.redistribute(old, source.parallelism)
    val unions = OperatorState.collectAll(old, source.declared.unions)
    parts.map(RestoredOperatorState(_, unions))
  }

  /** The states of the instances after a batch, in the header of its file. */
  private def statesIn(batch: Long, header: Array[Byte]): Seq[OperatorState] =
    try {
      val states = (parse(new String(header, UTF_8)) \ "states").asInstanceOf[JArray].arr
      states.map { state =>
        val lists = state.asInstanceOf[JObject].obj.map { case (name, elements) =>
          OperatorList(name, source.declared.unions(name), elements.extract[List[String]])
        }
        OperatorState(batch, lists)
      }
    } catch {
      case NonFatal(e) => throw KeystateErrors.damagedSourceHeader(batch, e)
    }

  override def await(): Collected = {
    val until = began + source.maxBatchNanos
    while (!instances.forall(_.isFull) && System.nanoTime() < until) Thread.sleep(PollMillis)
    // Asked in this order: an ended instance has its last rows, and its error.
    val waiting = instances.forall(_.isWaiting)
    val rows = instances.map(_.rows.toLong).sum
    instances.foreach(_.check())
    if (rows == 0) began = System.nanoTime()
    Collected(rows, waiting)
  }

  override def cut(batch: Long): CutBatch = {
    val now = System.currentTimeMillis
    val cuts = instances.map(_.cut(batch, now))
    began = System.nanoTime()
    val header = JObject(
      "batch" -> JInt(batch),
      "time" -> JInt(now),
      "source" -> JString(source.name),
      "parallelism" -> JInt(cuts.size),
      "rows" -> JArray(cuts.map(cut => JInt(cut.rows)).toList),
      "states" -> JArray(cuts.map(cut => json(cut.states)).toList)
    )
    val withRows = cuts.filter(_.rows > 0).map(_.data)
    CutBatch(compact(render(header)).getBytes(UTF_8), withRows)
  }

  private def json(state: OperatorState): JValue = JObject(state.lists.map { list =>
    list.name -> (JArray(list.elements.map(JString(_)).toList): JValue)
  }: _*)

  override def committed(batch: Long): Unit = instances.foreach(_.committed(batch))

  override def stop(): Unit = {
    instances.foreach(_.cancel())
    val deadline = System.nanoTime() + StopNanos
    instances.foreach(_.close(deadline))
  }
}

private object JvmSourceSession {
  private implicit val formats: Formats = DefaultFormats

  final val PollMillis = 5L

  /** How long the instances have to return after they were cancelled. */
  final val StopNanos = 5000000000L
}
