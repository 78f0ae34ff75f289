package org.apache.spark.sql.keystate.table

import scala.util.Using

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.util.{ArrayData, GenericArrayData}
import org.apache.spark.sql.connector.catalog.{Identifier, Table}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import keystate.backend.StateFamily
import keystate.errors.{ErrorCode, KeystateErrors, KeystateException}
import keystate.files.{Concurrently, StoreLocation}
import keystate.version.Manifest
import org.apache.spark.sql.keystate.checkpoint.{
  CommittedBatch, QueryCheckpoint, StoredOperatorState
}
import org.apache.spark.sql.keystate.files.CheckpointFiles
import org.apache.spark.sql.keystate.plan.StoredAggregates
import org.apache.spark.sql.keystate.spec.{StateSpec, SystemColumnFamilies}
import org.apache.spark.sql.keystate.store.KeystateCodec

/** Selects a version of a table. */
private[keystate] sealed trait AsOf

private[keystate] object AsOf {
  case object Newest extends AsOf
  final case class Version(number: Long) extends AsOf

  /** In ms since the epoch: the last version whose micro-batch had begun. */
  final case class Time(millis: Long) extends AsOf
}

/** The tables of a checkpoint. Each state is one, and so are the timers of an operator; with
  * `$changes` after the name, the table has the changes of each version. `$operators` and
  * `$versions` list the operators and versions.
  *
  * @param checkpoint
  *   its path
  * @param operator
  *   the number or the name of the only operator that counts; None: all
  */
private[keystate] final class CheckpointTables(
    conf: Configuration,
    checkpoint: String,
    operator: Option[String]
) {
  import CheckpointTables._

  private val location = CheckpointFiles.qualified(checkpoint, conf)

  /** The name in errors and plans. */
  private def fullName(table: String): String =
    (checkpoint +: operator.toSeq).map(part => s"`$part`").mkString("", ".", s".$table")

  /** The tables, with the operator in the name where several have such a state. */
  def identifiers(): Seq[Identifier] = opened { from =>
    val all = states(from, from.batch(from.lastBatch))
    val several =
      all.groupBy(_.family.name).collect { case (name, of) if of.size > 1 => name }.toSet
    val folder = checkpoint +: operator.toSeq
    val named = all.map { one =>
      val name = one.family.name
      val in = if (several(name)) folder :+ s"${one.operator}" else folder
      Identifier.of(in.toArray, name)
    }
    named ++ Seq(Operators, Versions).map(Identifier.of(folder.toArray, _))
  }

  def table(name: String, asOf: AsOf): Table = opened { from =>
    name match {
      case Operators => new DriverTable(fullName(name), OperatorColumns, opened(operatorRows))
      case Versions => new DriverTable(fullName(name), VersionColumns, opened(versionRows))
      case _ => state(from, name, asOf)
    }
  }

  private def state(from: QueryCheckpoint, name: String, asOf: AsOf): Table = {
    val batch = chosen(from, asOf)
    val all = states(from, batch)
    def found(wanted: String) = all.filter(_.family.name == wanted)
    val (ofChanges, fitting) = found(name) match {
      case Seq() if name.endsWith(Changes) => (true, found(name.stripSuffix(Changes)))
      case some => (false, some)
    }
    val Named(id, family, of) = fitting match {
      case Seq(one) => one
      case some =>
        throw KeystateErrors.noSuchState(
          location,
          Some(name),
          operator.flatMap(_.toLongOption),
          some.size,
          all.map(one => s"operator ${one.operator}: ${one.family.name}")
        )
    }
    if (StateSpec.isBroadcast(family)) {
      val (columns, _) = broadcast(from, id, batch, family)
      new DriverTable(fullName(name), columns, opened(broadcast(_, id, batch, family)._2))
    } else {
      val keySchema = from.keySchema(id, of.families)
      val stored = StoredTable(
        from.operatorFolder(id).toString,
        id,
        family,
        keySchema,
        of.partitioning.maxParallelism,
        ofChanges,
        StoredAggregates.of(family, keySchema)
      )
      val snapshot = if (ofChanges) None else Some(version(from, id, batch))
      new StateTable(
        fullName(name),
        stored,
        conf,
        (first, last) => snapshot.fold(opened(between(_, id, first, last, batch.version)))(Seq(_))
      )
    }
  }

  private def broadcast(
      from: QueryCheckpoint,
      id: Long,
      batch: CommittedBatch,
      family: StateFamily
  ): (StructType, Seq[InternalRow]) =
    new StoredOperatorState(from, id, batch.number).broadcast(family.name)

  /** The versions that all partitions keep, from one to another, and none after the newest that is
    * wanted.
    */
  private def between(
      from: QueryCheckpoint,
      id: Long,
      first: Long,
      last: Long,
      newest: Long
  ): Seq[TableVersion] = {
    val found = from
      .keptVersions(id)
      .filter(one => one >= first && one <= last && one <= newest)
      .map(one => version(from, id, from.batch(one - 1)))
    val most = found.map(_.partitions).maxOption.getOrElse(0)
    val stored = Concurrently.map(0 until most)(from.storedVersions(id, _))
    found.dropWhile(one => !(0 until one.partitions).forall(stored(_)(one.version)))
  }

  private def version(from: QueryCheckpoint, id: Long, batch: CommittedBatch): TableVersion = {
    val n = from.partitions(batch, id)
    val ids = (0 until n).map(from.idOf(batch, id, _, StoreLocation.DefaultStore))
    TableVersion(batch.version, n, ids)
  }

  private def operators(from: QueryCheckpoint): Seq[Long] = {
    val all = from.operators.filter(from.record(_).isDefined)
    operator.fold(all) { wanted =>
      val of = all.filter(id => s"$id" == wanted)
      val named = if (of.isEmpty) all.filter(from.operatorName(_) == wanted) else of
      if (named.isEmpty)
        throw KeystateErrors.noSuchOperator(
          location,
          wanted.toLongOption,
          all.map(id => s"operator $id: ${from.operatorName(id)}")
        )
      named
    }
  }

  /** The states and timers of a version. */
  private def states(from: QueryCheckpoint, batch: CommittedBatch): Seq[Named] = for {
    id <- operators(from)
    manifest = atVersion(from, batch.version)(
      from.manifest(batch, id, 0, StoreLocation.DefaultStore)
    )
    family <- manifest.families
    if KeystateCodec.owns(family) || StateSpec.isBroadcast(family) ||
      SystemColumnFamilies.isTimers(family)
  } yield Named(id, family, manifest)

  private def chosen(from: QueryCheckpoint, asOf: AsOf): CommittedBatch = asOf match {
    case AsOf.Newest => from.batch(from.lastBatch)
    case AsOf.Version(number) =>
      if (!from.committedBatches.contains(number - 1)) throw notKept(from, s"of version $number")
      from.batch(number - 1)
    case AsOf.Time(millis) =>
      from.committedBatches.reverseIterator
        .find(from.beganAt(_).exists(_ <= millis))
        .map(from.batch)
        .getOrElse(throw notKept(from, s"of ${java.time.Instant.ofEpochMilli(millis)}"))
  }

  private def notKept(from: QueryCheckpoint, wanted: String) = KeystateErrors.versionNotKept(
    location,
    wanted,
    operators(from).headOption.fold(Seq.empty[Long])(from.keptVersions)
  )

  private def atVersion[T](from: QueryCheckpoint, version: Long)(read: => T): T =
    try read
    catch {
      case e: KeystateException if e.errorCode == ErrorCode.MissingVersion =>
        throw notKept(from, s"of version $version")
    }

  private def operatorRows(from: QueryCheckpoint): Seq[InternalRow] = {
    val batch = from.batch(from.lastBatch)
    val all = states(from, batch)
    operators(from).map { id =>
      val of = all.filter(_.operator == id)
      val names: Seq[Any] = of.map(one => text(one.family.name))
      val kept = from.keptVersions(id)
      InternalRow(
        id,
        text(from.operatorName(id)),
        of.headOption.map(_.manifest.partitioning.maxParallelism).orNull,
        from.partitions(batch, id),
        kept.headOption.orNull,
        kept.lastOption.orNull,
        new GenericArrayData(names): ArrayData
      )
    }
  }

  private def versionRows(from: QueryCheckpoint): Seq[InternalRow] = {
    val kept = operators(from).flatMap(from.keptVersions).distinct.sorted
    kept.map { version =>
      val batch = version - 1
      InternalRow(
        version,
        batch,
        from.beganAt(batch).map(_ * 1000).orNull,
        // 0 where there is none yet
        from.beganWith(batch).filter(_ != 0).map(_ * 1000).orNull,
        from.batch(batch).partitions
      )
    }
  }

  private def opened[T](read: QueryCheckpoint => T): T =
    Using.resource(new QueryCheckpoint(conf, location))(read)
}

private object CheckpointTables {

  /** A state, or the timers, of an operator.
    *
    * @param manifest
    *   of its first partition
    */
  private final case class Named(operator: Long, family: StateFamily, manifest: Manifest)

  private val Operators = "$operators"
  private val Versions = "$versions"

  /** Follows the name of a state. */
  private val Changes = "$changes"

  private val OperatorColumns = new StructType()
    .add("operator", LongType)
    .add("name", StringType)
    .add("max_parallelism", IntegerType)
    .add("partitions", IntegerType)
    .add("oldest_version", LongType)
    .add("newest_version", LongType)
    .add("states", ArrayType(StringType))

  private val VersionColumns = new StructType()
    .add("version", LongType)
    .add("batch_id", LongType)
    .add("began_at", TimestampType)
    .add("watermark", TimestampType)
    .add("partitions", IntegerType)

  private def text(value: String): UTF8String = UTF8String.fromString(value)
}
