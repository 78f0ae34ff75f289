package org.apache.spark.sql.keystate.metadata

import java.nio.charset.StandardCharsets.UTF_8

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.json4s.jackson.JsonMethods.{compact, parse, render}
import org.json4s.{JArray, JInt, JObject, JValue}

import keystate.errors.{KeystateErrors, KeystateException}
import org.apache.spark.sql.keystate.files.{CheckpointFiles, SparkCheckpointStorage, SparkFiles}

/** The stateful operators of a query, as its checkpoint has them: Keystate's operators, which have
  * a record, and Spark's own.
  *
  * @param root
  *   the checkpoint
  */
private[keystate] final class CheckpointOperators(conf: Configuration, root: Path) {
  import CheckpointOperators.Recorded

  private val files = CheckpointFiles.ofRun(root, conf)
  private val state = new Path(root, "state")
  private val file = new Path(root, "_keystate/operators")

  /** The ids of all operators, ascending: those that are recorded, or else those that have a folder.
    * Throws if one of them has no folder any more.
    */
  def all: Seq[Long] = {
    lostFolders.headOption.foreach(lost => throw gone(folder(lost)))
    recorded.fold(found)(_.operators)
  }

  /** Errors for operators that are recorded and have no folder any more, or no record of their own. */
  def lost: Seq[KeystateException] = {
    val folders = lostFolders
    val own = recorded.fold(Seq.empty[Long])(_.own).diff(folders)
    folders.map(operator => gone(folder(operator))) ++
      own.filter(isRecordLost).map(operator => gone(OperatorRecord.fileOf(folder(operator))))
  }

  private def lostFolders: Seq[Long] = {
    val lost = recorded.fold(Seq.empty[Long])(_.operators).diff(found)
    if (lost.nonEmpty && hasCommits) lost else Nil
  }

  private def isRecordLost(operator: Long): Boolean =
    OperatorRecord.read(folder(operator), conf).isEmpty && hasCommits

  /** Before the first commit an operator may have no folder and no record yet. */
  private def hasCommits: Boolean =
    CheckpointFiles.names(files, new Path(root, "commits")).nonEmpty

  private def gone(path: Path): KeystateException = KeystateErrors.fileGone(s"$path", s"$root")

  /** Records which operators there are, unless it is recorded. By this a folder or a record that is
    * lost later is noticed.
    *
    * @param own
    *   those that are Keystate's
    */
  def write(operators: Seq[Long], own: Seq[Long]): Unit = if (
    !recorded.contains(Recorded(operators, own))
  ) {
    def numbers(of: Seq[Long]) = JArray(of.map(JInt(_)).toList)
    val content =
      JObject("format" -> JInt(1), "operators" -> numbers(operators), "own" -> numbers(own))
    files.mkdirs(file.getParent)
    CheckpointFiles.write(files, file, overwriteIfPossible = true)(
      _.write(compact(render(content)).getBytes(UTF_8))
    )
    known = Some(Recorded(operators, own))
  }

  /** Records those that are found: a copy has the operators that it was given. */
  def writeFound(): Unit =
    write(found, found.filter(operator => OperatorRecord.read(folder(operator), conf).isDefined))

  /** Those that have a folder. */
  def found: Seq[Long] = CheckpointFiles.names(files, state).flatMap(_.toLongOption).sorted

  private def recorded: Option[Recorded] = {
    if (known.isEmpty) known = read()
    known
  }

  /** Once there is a record, a query keeps it. */
  private var known: Option[Recorded] = None

  /** Whether the checkpoint has a record. */
  def isRecorded: Boolean = recorded.isDefined

  private def read(): Option[Recorded] =
    CheckpointFiles.readIfThere(files, file).map { json =>
      SparkFiles.reading(file) {
        val content = parse(new String(json, UTF_8))
        Recorded(numbers(content \ "operators"), numbers(content \ "own"))
      }
    }

  private def numbers(of: JValue): Seq[Long] = {
    val JArray(numbers) = of: @unchecked
    numbers.map { case JInt(number) => number.toLong; case _ => throw new NumberFormatException }
  }

  def folder(operator: Long): Path = new Path(state, s"$operator")

  def storage(operator: Long): SparkCheckpointStorage =
    new SparkCheckpointStorage(folder(operator), conf)

  /** An operator's record. None if the operator is one of Spark's own. Throws if it is lost. */
  def record(operator: Long): Option[OperatorRecord] = {
    val record = OperatorRecord.read(folder(operator), conf)
    if (record.isEmpty && recorded.exists(_.own.contains(operator)) && hasCommits)
      throw gone(OperatorRecord.fileOf(folder(operator)))
    record
  }

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

  /** @param operators
    *   all of them
    * @param own
    *   those of them that are Keystate's
    */
  private final case class Recorded(operators: Seq[Long], own: Seq[Long])

  /** Whether one of Spark's operators has no keys, such as a limit. All of its state is in the
    * first partition.
    */
  def isUnpartitioned(stores: Seq[SparkStoreMetadata]): Boolean = stores.forall(_.isUnpartitioned)
}
