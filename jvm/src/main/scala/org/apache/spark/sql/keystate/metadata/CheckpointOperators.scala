package org.apache.spark.sql.keystate.metadata

import java.nio.charset.StandardCharsets.UTF_8

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.json4s.jackson.JsonMethods.{compact, parse, render}
import org.json4s.{JArray, JInt, JObject}

import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.files.{CheckpointFiles, SparkCheckpointStorage, SparkFiles}

/** The stateful operators of a query, as its checkpoint has them: Keystate's operators, which have
  * a record, and Spark's own.
  *
  * @param root
  *   the checkpoint
  */
private[keystate] final class CheckpointOperators(conf: Configuration, root: Path) {
  private val files = CheckpointFiles.ofRun(root, conf)
  private val state = new Path(root, "state")
  private val file = new Path(root, "_keystate/operators")

  /** The ids of all operators, ascending: those that are recorded, or else those that have a folder.
    * Throws if one of them has no folder any more.
    */
  def all: Seq[Long] = {
    val known = recorded
    lostOf(known).foreach(lost => throw KeystateErrors.fileGone(s"${folder(lost)}", s"$root"))
    known.getOrElse(found)
  }

  /** Those that are recorded and have no folder any more. Before the first commit they may have none
    * yet.
    */
  def lost: Seq[Long] = lostOf(recorded)

  private def lostOf(known: Option[Seq[Long]]): Seq[Long] = {
    val gone = known.fold(Seq.empty[Long])(_.diff(found))
    if (gone.isEmpty || CheckpointFiles.names(files, new Path(root, "commits")).isEmpty) Nil
    else gone
  }

  /** Records which operators there are, unless it is recorded. By this a folder that is lost later is
    * noticed.
    */
  def write(operators: Seq[Long]): Unit = if (!recorded.contains(operators)) {
    val content =
      JObject("format" -> JInt(1), "operators" -> JArray(operators.map(JInt(_)).toList))
    files.mkdirs(file.getParent)
    CheckpointFiles.write(files, file, overwriteIfPossible = true)(
      _.write(compact(render(content)).getBytes(UTF_8))
    )
    known = Some(operators)
  }

  /** Those that have a folder. */
  def found: Seq[Long] = CheckpointFiles.names(files, state).flatMap(_.toLongOption).sorted

  private def recorded: Option[Seq[Long]] = {
    if (known.isEmpty) known = read()
    known
  }

  /** Once there is a record, a query keeps it. */
  private var known: Option[Seq[Long]] = None

  /** Whether the checkpoint has a record. */
  def isRecorded: Boolean = recorded.isDefined

  private def read(): Option[Seq[Long]] =
    CheckpointFiles.readIfThere(files, file).map { json =>
      SparkFiles.reading(file) {
        val JArray(numbers) = parse(new String(json, UTF_8)) \ "operators": @unchecked
        numbers.map {
          case JInt(number) => number.toLong; case _ => throw new NumberFormatException
        }
      }
    }

  def folder(operator: Long): Path = new Path(state, s"$operator")

  def storage(operator: Long): SparkCheckpointStorage =
    new SparkCheckpointStorage(folder(operator), conf)

  /** An operator's record. None if the operator is one of Spark's own. */
  def record(operator: Long): Option[OperatorRecord] =
    OperatorRecord.read(folder(operator), conf)

  /** The stores of Spark's own operators, as they are after a committed micro-batch. */
  def sparkStores(batch: Option[Long]): Map[Long, Seq[SparkStoreMetadata]] = {
    val sparks = all.filter(record(_).isEmpty).toSet
    batch.filter(_ => sparks.nonEmpty).fold(Map.empty[Long, Seq[SparkStoreMetadata]]) { batch =>
      SparkStoreMetadata.all(conf, root, batch).filter { case (operator, _) =>
        sparks(operator)
      }
    }
  }
}

private[keystate] object CheckpointOperators {

  /** Whether one of Spark's operators has no keys, such as a limit. All of its state is in the
    * first partition.
    */
  def isUnpartitioned(stores: Seq[SparkStoreMetadata]): Boolean = stores.forall(_.isUnpartitioned)
}
