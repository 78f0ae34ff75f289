package org.apache.spark.sql.keystate

import java.util.{Map => JMap}

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.catalog.{Column, Identifier, Table, TableCatalog, TableChange}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.util.CaseInsensitiveStringMap

import keystate.errors.{ErrorCode, KeystateErrors, KeystateException}
import org.apache.spark.sql.keystate.table.{AsOf, CheckpointTables}

/** Set as `spark.sql.catalog.keystate`: the states of a checkpoint as read-only tables, as in
  * {{{SELECT * FROM keystate.`/path/of/checkpoint`.total VERSION AS OF 41}}}
  */
class KeystateCatalog extends TableCatalog {
  private var catalog = ""

  override def initialize(name: String, options: CaseInsensitiveStringMap): Unit = catalog = name

  override def name(): String = catalog

  override def listTables(namespace: Array[String]): Array[Identifier] = explained {
    of(namespace, "table").identifiers().toArray
  }

  override def loadTable(ident: Identifier): Table = load(ident, AsOf.Newest)

  override def loadTable(ident: Identifier, version: String): Table = load(
    ident,
    AsOf.Version(
      version.toLongOption.getOrElse(
        throw new IllegalArgumentException(s"VERSION AS OF '$version': a version is a number")
      )
    )
  )

  /** @param micros
    *   since the epoch
    */
  override def loadTable(ident: Identifier, micros: Long): Table =
    load(ident, AsOf.Time(Math.floorDiv(micros, 1000L)))

  override def tableExists(ident: Identifier): Boolean = explained {
    try {
      of(ident.namespace, ident.name).table(ident.name, AsOf.Newest)
      true
    } catch { case e: KeystateException if e.errorCode == ErrorCode.NoSuchState => false }
  }

  override def createTable(
      ident: Identifier,
      columns: Array[Column],
      partitions: Array[Transform],
      properties: JMap[String, String]
  ): Table = refused(s"CREATE TABLE $ident")

  override def alterTable(ident: Identifier, changes: TableChange*): Table =
    refused(s"ALTER TABLE $ident")

  override def dropTable(ident: Identifier): Boolean = refused(s"DROP TABLE $ident")

  override def renameTable(from: Identifier, to: Identifier): Unit =
    refused(s"ALTER TABLE $from RENAME")

  private def load(ident: Identifier, asOf: AsOf): Table = explained {
    of(ident.namespace, ident.name).table(ident.name, asOf)
  }

  private def of(namespace: Array[String], table: String): CheckpointTables = namespace match {
    case Array(checkpoint) => new CheckpointTables(conf, checkpoint, None)
    case Array(checkpoint, operator) => new CheckpointTables(conf, checkpoint, Some(operator))
    case _ =>
      throw KeystateErrors.tableWithoutCheckpoint(catalog, (namespace :+ table).mkString("."))
  }

  private def conf = SparkSession.active.sessionState.newHadoopConf()

  private def refused(what: String): Nothing = explained(throw KeystateErrors.readOnly(what))

  /** Spark's own errors for invalid queries: so Python shows only these. */
  private def explained[T](body: => T): T =
    try body
    catch {
      case e: KeystateException =>
        throw new AnalysisException(e.getMessage, None, None, Some(e), None, Map.empty, Array.empty)
    }
}
