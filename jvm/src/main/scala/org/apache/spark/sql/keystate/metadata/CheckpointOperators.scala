package org.apache.spark.sql.keystate.metadata

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.json4s.JsonDSL._
import org.json4s.{DefaultFormats, Formats}

import org.apache.spark.sql.internal.SQLConf

import keystate.config.Settings
import keystate.errors.{KeystateErrors, KeystateException}
import org.apache.spark.sql.keystate.files.{
  CheckpointFiles, OffsetEntry, QueryLogs, SparkCheckpointStorage
}

/** The stateful operators of a query in its checkpoint: Keystate's operators, which have a record,
  * and Spark's own.
  *
  * @param root
  *   the checkpoint
  */
private[keystate] final class CheckpointOperators(conf: Configuration, root: Path) {
  import CheckpointOperators._

  private val files = CheckpointFiles.ofRun(root, conf)
  private val state = new Path(root, "state")
  private val file = new Path(root, "_keystate/operators")

  /** The ids of all operators, ascending. Throws if an operator's folder is lost, or the file that
    * names the operators.
    */
  def all: Seq[Long] = {
    lostFolders.headOption.foreach(path => throw gone(path))
    recorded.fold(found)(_.operators)
  }

  /** Errors for operators' folders and records that are lost, or for the file that names the
    * operators.
    */
  def lost: Seq[KeystateException] = {
    val folders = lostFolders
    val own = recorded.fold(Seq.empty[Long])(_.own).filterNot(id => folders.contains(folder(id)))
    (folders ++ own.filter(isRecordLost).map(id => OperatorRecord.fileOf(folder(id)))).map(gone)
  }

  /** Folders of operators that are gone, or the file that names the operators. Before the first
    * commit there may be neither yet. Spark's own checkpoints have no such file.
    */
  private def lostFolders: Seq[Path] = {
    val lost = recorded match {
      case Some(record) => record.operators.diff(found).map(folder)
      case None => if (found.isEmpty) Nil else Seq(file)
    }
    if (lost.isEmpty || !hasCommits || recorded.isEmpty && !isKeystates) Nil else lost
  }

  private def isRecordLost(operator: Long): Boolean =
    OperatorRecord.read(folder(operator), conf).isEmpty && hasCommits

  private def hasCommits: Boolean =
    CheckpointFiles.names(files, new Path(root, "commits")).nonEmpty

  /** Whether the query ran with Keystate's state store provider. */
  private def isKeystates: Boolean = QueryLogs.offsets(conf, root).latest.exists {
    case (_, entry) => OffsetEntry.setting(entry, Provider).contains(Settings.ProviderClass)
  }

  private def gone(path: Path): KeystateException = KeystateErrors.fileGone(s"$path", s"$root")

  /** Records the operators, unless they are recorded. The record shows if a folder or a record is
    * lost later.
    *
    * @param own
    *   Keystate's operators
    */
  def write(operators: Seq[Long], own: Seq[Long]): Unit = {
    val record = Recorded(operators, own)
    if (!recorded.contains(record)) {
      files.mkdirs(file.getParent)
      val fields = ("operators" -> operators) ~ ("own" -> own)
      CheckpointFiles.writeJson(files, file, fields, overwriteIfPossible = true)
      known = Some(record)
    }
  }

  /** Records the operators that are found: a copy has exactly those that it was made with. */
  def writeFound(): Unit =
    write(found, found.filter(operator => OperatorRecord.read(folder(operator), conf).isDefined))

  /** The operators that have a folder. */
  def found: Seq[Long] = CheckpointFiles.names(files, state).flatMap(_.toLongOption).sorted

  private def recorded: Option[Recorded] = {
    if (known.isEmpty) known = CheckpointFiles.readJson(files, file) { json =>
      Recorded((json \ "operators").extract[Seq[Long]], (json \ "own").extract[Seq[Long]])
    }
    known
  }

  /** Once there is a record, a query keeps it. */
  private var known: Option[Recorded] = None

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
  private implicit val formats: Formats = DefaultFormats
  private val Provider = SQLConf.STATE_STORE_PROVIDER_CLASS.key

  /** @param operators
    *   all operators
    * @param own
    *   Keystate's operators
    */
  private final case class Recorded(operators: Seq[Long], own: Seq[Long])

  /** Whether one of Spark's operators has no keys, such as a limit. All of its state is in the
    * first partition.
    */
  def isUnpartitioned(stores: Seq[SparkStoreMetadata]): Boolean = stores.forall(_.isUnpartitioned)
}
