package org.apache.spark.sql.keystate.checkpoint

import java.util.Arrays

import org.json4s.JsonDSL._
import org.json4s.{JInt, JNull, JObject, JValue}

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import keystate.backend.{Change, StateFamily}
import keystate.checkpoint.FoundInRuns
import keystate.errors.{KeystateErrors, MissingVersionException}
import keystate.files.{Concurrently, StoreLocation}
import keystate.keygroup.KeyGroups
import keystate.version.Manifest
import org.apache.spark.sql.keystate.encoding.WindowNamespace
import org.apache.spark.sql.keystate.spec.StoredTypes
import org.apache.spark.sql.keystate.state.TimerKeys
import org.apache.spark.sql.keystate.store.KeystateCodec

/** Reads what one key has in all states of an operator, and its timers, in each version that is
  * kept: in the driver and without a Spark job. Of a run it reads only the parts that can have the
  * key, and the timers of the key's group; what versions share it reads once. Much is read side by
  * side, for a store may take long to answer.
  *
  * @param operator
  *   its number; None if there is one of Keystate's
  */
private[keystate] final class KeyHistory(checkpoint: QueryCheckpoint, operator: Option[Long]) {
  import KeyHistory._

  private val store = StoreLocation.DefaultStore
  private val last = checkpoint.batch(checkpoint.lastBatch)

  private val id: Long = {
    val all = checkpoint.operators.filter(checkpoint.record(_).isDefined)
    all.filter(one => operator.forall(_ == one)) match {
      case Seq(one) => one
      case _ =>
        val there = all.map(one => s"operator $one: ${checkpoint.operatorName(one)}")
        throw KeystateErrors.noSuchOperator(checkpoint.location, operator, there)
    }
  }

  private lazy val ofLast = checkpoint.manifest(last, id, 0, store)

  private lazy val keySchema = checkpoint.keySchema(id, ofLast.families)

  /** The operator and the columns of its key. */
  def describe: JValue =
    ("operator" -> id) ~ ("name" -> checkpoint.operatorName(id)) ~
      ("batch" -> last.number) ~ ("max_parallelism" -> ofLast.partitioning.maxParallelism) ~
      ("key" -> StoredTypes.parse(keySchema.json, "key").json)

  /** The key's values after each micro-batch, oldest first. A state, or the timers, are reported
    * where they differ from the version before, also in their types, and in the first version.
    *
    * @param key
    *   a row with the key's columns, as an Arrow stream in Base64
    * @param first
    *   the first wanted version
    * @param until
    *   the last wanted version
    */
  def versions(key: String, first: Long, until: Long): JValue = {
    val reader = new Reader(StoredState.row(key, keySchema))
    val wanted =
      checkpoint.committedBatches.filter(batch => batch + 1 >= first && batch + 1 <= until)
    val found = reader.read(Concurrently.map(wanted)(reader.listed))
    val before = None +: found.map(Some(_))
    ("versions" -> found.zip(before).map { case (one, before) => told(one, before) }) ~
      ("batch" -> last.number)
  }

  private def told(version: Version, before: Option[Version]): JObject = {
    val states = version.states
      .filterNot(state => before.exists(_.states.exists(_.isAs(state))))
      .map { state =>
        state.stored.describe ~ ("rows" -> state.stored.stream(state.entries)) ~
          ("times" -> state.stored.times(state.entries).map(_.fold[JValue](JNull)(JInt(_))))
      }
    val gone = before.toSeq
      .flatMap(_.states.map(_.stored.family.name))
      .diff(version.states.map(_.stored.family.name))
    val timers = Option.when(!before.exists(_.timers == version.timers))(version.timers)
    ("version" -> (version.batch + 1)) ~ ("batch" -> version.batch) ~
      ("began_at" -> checkpoint.beganAt(version.batch)) ~
      ("watermark" -> checkpoint.beganWith(version.batch)) ~
      ("states" -> states) ~ ("gone" -> gone) ~ ("timers" -> timers)
  }

  private final class Reader(key: UnsafeRow) {
    private val known = new FoundInRuns
    private val bytes = key.getBytes
    private val group =
      KeyGroups.groupOf(StoredState.hash(key, keySchema), ofLast.partitioning.maxParallelism)

    /** The version after a batch of the partition that has the key. None if it is not there any
      * more.
      */
    def listed(number: Long): Option[Listed] =
      try {
        val batch = checkpoint.batch(number)
        val n = checkpoint.partitions(batch, id)
        val partition = KeyGroups.subtaskOf(group, n, ofLast.partitioning.maxParallelism)
        Some(Listed(number, partition, checkpoint.manifest(batch, id, partition, store)))
      } catch { case _: MissingVersionException => None }

    /** The content of the newest versions, up to the first gap: the oldest ones may have been
      * deleted.
      */
    def read(all: Seq[Option[Listed]]): Vector[Version] = {
      val there = all.reverseIterator.takeWhile(_.isDefined).flatten.toVector.reverse
      val families = for {
        one <- there
        family <- one.manifest.families
        timerKeys = TimerKeys.of(family)
        if timerKeys.nonEmpty || KeystateCodec.owns(family)
      } yield (one, family, timerKeys)
      val found = Concurrently.map(families) { case (one, family, timerKeys) =>
        one.batch -> timerKeys.map(timers(one, family, _)).toLeft(state(one, family))
      }
      val byBatch = found.groupMap(_._1)(_._2)
      there.map { one =>
        val (timers, states) = byBatch.getOrElse(one.batch, Nil).partitionMap(identity)
        Version(one.batch, states.flatten, timers.flatten)
      }
    }

    /** The key in a state, and beside it in the aggregates whose buffers that has. */
    private def state(of: Listed, family: StateFamily): Seq[Found] = {
      val stored = new StoredState(family, keySchema)
      val (from, until) = stored.range(bytes, "", "", isRange = true)
      val entries = stored.unexpired(of.manifest, find(of, family, from, until))
      val evaluated = EvaluatedState.of(stored, family, keySchema)
      Found(stored, entries) +: evaluated.map(it => Found(it.state, it.entries(entries))).toSeq
    }

    private def timers(of: Listed, family: StateFamily, keys: TimerKeys): Seq[Seq[Long]] =
      find(of, family, FirstTimer, AfterTimers)
        .filter(timer => Arrays.equals(keys.keyOf(timer.key), bytes))
        .map { timer =>
          val namespace = keys.namespaceOf(timer.key)
          val window =
            if (namespace.isEmpty) Nil
            else Seq(WindowNamespace.endOf(namespace), WindowNamespace.startOf(namespace))
          Seq(timer.key.head.toLong, TimerKeys.timeOf(timer.key)) ++ window
        }

    private def find(of: Listed, family: StateFamily, from: Array[Byte], until: Array[Byte]) =
      checkpoint
        .reader(id, of.partition, store)
        .find(of.manifest, family, group, from, until, known)
  }
}

private object KeyHistory {

  /** A version of the partition that has the key. */
  final case class Listed(batch: Long, partition: Int, manifest: Manifest)

  /** The entries of a key in a state. */
  final case class Found(stored: StoredState, entries: Vector[Change]) {

    /** Whether both have the same entries of the same state, and with the same types. */
    def isAs(other: Found): Boolean =
      stored.describe == other.stored.describe && same(entries, other.entries)
  }

  /** The timers are domains and times, and of a window its end and start. */
  final case class Version(batch: Long, states: Seq[Found], timers: Seq[Seq[Long]])

  private val FirstTimer = Array.emptyByteArray
  private val AfterTimers = Array(Byte.MaxValue)

  private def same(a: Vector[Change], b: Vector[Change]): Boolean =
    a.size == b.size && a.zip(b).forall { case (x, y) =>
      Arrays.equals(x.key, y.key) && Arrays.equals(x.value, y.value)
    }
}
