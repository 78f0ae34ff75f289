package org.apache.spark.sql.keystate.checkpoint

import java.util.Arrays

import org.json4s.JsonDSL._
import org.json4s.{JInt, JNull, JObject, JValue}

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import keystate.backend.{Change, StateFamily}
import keystate.checkpoint.FoundInRuns
import keystate.errors.{KeystateErrors, MissingVersionException}
import keystate.files.StoreLocation
import keystate.keygroup.KeyGroups
import org.apache.spark.sql.keystate.spec.{OwnFamilies, StoredTypes}
import org.apache.spark.sql.keystate.state.Timers
import org.apache.spark.sql.keystate.store.KeystateCodec

/** Reads what one key has in all states of an operator, and its timers, in each version that is
  * kept: in the driver and without a Spark job. Of a run it reads only the parts that can have the
  * key, and the timers of the key's group; what versions share it reads once.
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

  private lazy val keySchema = checkpoint.keySchema(id, last.number, ofLast.families)

  /** The operator and the columns of its key. */
  def describe: JValue =
    ("operator" -> id) ~ ("name" -> checkpoint.operatorName(id)) ~
      ("batch" -> last.number) ~ ("max_parallelism" -> ofLast.partitioning.maxParallelism) ~
      ("key" -> StoredTypes.parse(keySchema.json, "key").json)

  /** What the key had after each micro-batch, oldest first. A state, or the timers, are told where
    * they are not as in the version before, and in the first version.
    *
    * @param key
    *   a row with the key's columns, as an Arrow stream in Base64
    * @param first
    *   the first version that is wanted
    * @param until
    *   the last one
    */
  def versions(key: String, first: Long, until: Long): JValue = {
    val reader = new Reader(StoredState.row(key, keySchema))
    // From the newest one on, because the oldest ones may have been deleted.
    val found = checkpoint.committedBatches.reverseIterator
      .filter(batch => batch + 1 >= first && batch + 1 <= until)
      .map(batch => reader.version(batch))
      .takeWhile(_.isDefined)
      .flatten
      .toVector
      .reverse
    val before = None +: found.map(Some(_))
    ("versions" -> found.zip(before).map { case (one, before) => told(one, before) }) ~
      ("batch" -> last.number)
  }

  private def told(version: Version, before: Option[Version]): JObject = {
    val states = version.states
      .filterNot { state =>
        before.exists(_.states.exists(old => old.isOf(state) && same(old.entries, state.entries)))
      }
      .map { state =>
        state.stored.describe ~ ("rows" -> state.stored.stream(state.entries)) ~
          ("times" -> state.stored.times(state.entries).map(_.fold[JValue](JNull)(JInt(_))))
      }
    val gone = before.toSeq
      .flatMap(_.states.map(_.stored.family.name))
      .diff(version.states.map(_.stored.family.name))
    val timers = Option.when(!before.exists(_.timers == version.timers)) {
      version.timers.map { case (domain, time) => List(domain.toLong, time) }
    }
    ("version" -> (version.batch + 1)) ~ ("batch" -> version.batch) ~
      ("began_at" -> checkpoint.beganAt(version.batch)) ~
      ("watermark" -> checkpoint.beganWith(version.batch)) ~
      ("states" -> states) ~ ("gone" -> gone) ~ ("timers" -> timers)
  }

  private final class Reader(key: UnsafeRow) {
    private val known = new FoundInRuns
    private val hash = StoredState.hash(key, keySchema)
    private val bytes = key.getBytes

    /** None if the version is not there any more. */
    def version(number: Long): Option[Version] =
      try {
        val batch = checkpoint.batch(number)
        val n = checkpoint.partitions(batch, id)
        val group = KeyGroups.groupOf(hash, ofLast.partitioning.maxParallelism)
        val partition = KeyGroups.subtaskOf(group, n, ofLast.partitioning.maxParallelism)
        val manifest = checkpoint.manifest(batch, id, partition, store)
        def find(family: StateFamily, from: Array[Byte], until: Array[Byte]) = checkpoint
          .reader(id, partition, store)
          .find(manifest, family, group, from, until, known)
        val states = manifest.families.filter(KeystateCodec.owns).map { family =>
          val stored = new StoredState(family, keySchema)
          val (from, until) = stored.range(bytes, "", "", isRange = true)
          Found(stored, stored.unexpired(manifest, find(family, from, until)))
        }
        val timers = manifest.families.filter(_.name == OwnFamilies.TimersName).flatMap { family =>
          find(family, FirstTimer, AfterTimers)
            .filter(timer => Arrays.equals(Timers.keyOf(timer.key), bytes))
            .map(timer => (timer.key.head, Timers.timeOf(timer.key)))
        }
        Some(Version(number, states, timers))
      } catch { case _: MissingVersionException => None }
  }
}

private object KeyHistory {

  /** What a key has in a state. */
  final case class Found(stored: StoredState, entries: Vector[Change]) {
    def isOf(other: Found): Boolean = stored.family.name == other.stored.family.name
  }

  /** The timers are domains and times. */
  final case class Version(batch: Long, states: Seq[Found], timers: Seq[(Byte, Long)])

  private val FirstTimer = Array.emptyByteArray
  private val AfterTimers = Array(Byte.MaxValue)

  private def same(a: Vector[Change], b: Vector[Change]): Boolean =
    a.size == b.size && a.zip(b).forall { case (x, y) =>
      Arrays.equals(x.key, y.key) && Arrays.equals(x.value, y.value)
    }
}
