package org.apache.spark.sql.keystate.operator

import java.lang.ref.SoftReference
import java.util.{Map => JMap}

import keystate.checkpoint.OperatorState
import org.apache.spark.sql.keystate.metrics.Recent

/** The operator state of all subtasks, with which tasks with union lists begin. The tasks of a
  * micro-batch that run in one process read it once: otherwise every task would read the files of
  * all subtasks. It is kept while there is memory for it.
  */
private[keystate] object SharedOperatorStates {

  /** The state that a micro-batch begins with. A run of a query commits a version once, so this
    * identifies one content.
    */
  final case class Beginning(queryRun: String, operator: Long, version: Long)

  /** How many beginnings are kept, for queries that start at the same time. */
  private final val Kept = 16

  private final class Shared {
    private var states = Option.empty[Seq[OperatorState]]

    /** If reading fails, the next task tries it again. */
    def getOrRead(read: () => Seq[OperatorState]): Seq[OperatorState] = synchronized {
      if (states.isEmpty) states = Some(read())
      states.get
    }
  }

  private val recent: JMap[Beginning, SoftReference[Shared]] = Recent.map(Kept)

  def of(beginning: Beginning)(read: () => Seq[OperatorState]): Seq[OperatorState] =
    shared(beginning).getOrRead(read)

  private def shared(beginning: Beginning): Shared = recent.synchronized {
    Option(recent.get(beginning)).flatMap(known => Option(known.get)).getOrElse {
      val made = new Shared
      recent.put(beginning, new SoftReference(made))
      made
    }
  }
}
