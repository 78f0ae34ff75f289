package org.apache.spark.sql.keystate.operator

import java.util.{Map => JMap, UUID}

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.execution.streaming.state.StateStore

import keystate.backend.StateFamily
import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.metadata.RecordedStates
import org.apache.spark.sql.keystate.metrics.Recent

/** Records which static inputs an operator has read. Each is read once, in one micro-batch: when
  * that is committed, its version records the input, and so do all later versions. A micro-batch
  * that is run again begins with the version before, and reads the input again.
  *
  * The record is the property `read` of Spark's default family, which each store has: names
  * separated by commas, `query` if a micro-batch of a query made the version, and the inputs that
  * were read. A checkpoint that was made for a query to start from has an empty one.
  */
private[keystate] object StaticInputs {
  val Connected = "connected"
  val Broadcast = "broadcast"
  val Initial = "initial"

  private final val Query = "query"
  private final val Read = "read"
  private val KeptInMemory = 1000

  /** By run and operator: a version, and whether a micro-batch that begins with it reads the input.
    * Once one does not, no later one of the run does. Spark asks often, and in each micro-batch.
    */
  private val known: JMap[(UUID, Long), (Long, Boolean)] = Recent.map(KeptInMemory)

  /** Whether the micro-batch reads this input. */
  def reads(input: String, info: StatefulOperatorStateInfo, hadoopConf: => Configuration): Boolean =
    info.storeVersion == 0 || {
      val run = (info.queryRunId, info.operatorId)
      Option(known.get(run)) match {
        case Some((version, reads)) if !reads || version == info.storeVersion => reads
        case _ =>
          val id = info.stateStoreCkptIds.flatMap(_.head.headOption)
          val reads = lacks(input, RecordedStates.read(info, id, hadoopConf))
          known.put(run, (info.storeVersion, reads))
          reads
      }
    }

  /** Whether an operator keeps this record; Spark's own ones don't. */
  def areRecorded(families: Seq[StateFamily]): Boolean =
    families.exists(family => isDefault(family) && family.properties.contains(Read))

  def lacks(input: String, recorded: Seq[StateFamily]): Boolean =
    isUnread(input, in(recorded))

  /** Whether an input is still unread, by the record of the last micro-batch. Initial state is for
    * an operator that no query has had yet; other inputs may be added later.
    */
  def isUnread(input: String, noted: Set[String]): Boolean =
    if (input == Initial) noted.isEmpty else !noted(input)

  /** The record of a micro-batch.
    *
    * @param noted
    *   the record of the micro-batch before
    * @param input
    *   the static input that it reads, if it reads one
    */
  def noting(noted: Set[String], input: Option[String]): Set[String] = noted ++ input + Query

  private def in(families: Iterable[StateFamily]): Set[String] = families
    .find(isDefault)
    .flatMap(_.properties.get(Read))
    .getOrElse {
      val cause = new NoSuchElementException(s"there is no property '$Read'")
      throw KeystateErrors.damagedState(StateStore.DEFAULT_COL_FAMILY_NAME, cause)
    }
    .split(',')
    .filter(_.nonEmpty)
    .toSet

  private def isDefault(family: StateFamily) = family.name == StateStore.DEFAULT_COL_FAMILY_NAME

  /** The default family's properties in the version that a micro-batch makes.
    *
    * @param default
    *   the family in the version that it begins with
    * @param input
    *   the static input that it reads, if it reads one
    */
  def after(default: StateFamily, version: Long, input: Option[String]): Map[String, String] = {
    val before = if (version == 0) Set.empty[String] else in(Seq(default))
    default.properties + property(noting(before, input))
  }

  /** A family of a version that is written and not made by a query.
    *
    * @param from
    *   the families of the operator that it is made from; None for a new operator
    * @param hasRun
    *   whether a new operator replaces one that a query has had
    */
  def written(
      family: StateFamily,
      from: Option[Seq[StateFamily]],
      hasRun: Boolean = false
  ): StateFamily =
    if (!isDefault(family)) family
    else {
      val ofNew = Set.empty[String] ++ Option.when(hasRun)(Query)
      family.copy(properties = family.properties + property(from.fold(ofNew)(in)))
    }

  private def property(read: Set[String]) = Read -> read.toSeq.sorted.mkString(",")
}
