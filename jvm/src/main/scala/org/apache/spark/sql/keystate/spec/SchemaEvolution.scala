package org.apache.spark.sql.keystate.spec

import java.util.Base64

import org.json4s.JsonAST.JArray
import org.json4s.jackson.JsonMethods.{compact, parse}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  ArrayTransform, BoundReference, Cast, CreateNamedStruct, Expression, GetStructField, If, IsNull,
  LambdaFunction, Literal, NamedLambdaVariable, TransformValues, UnsafeProjection
}
import org.apache.spark.sql.types._
import org.apache.spark.sql.vectorized.ColumnarArray

import keystate.backend.StateFamily
import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.encoding.ArrowStreams

/** The allowed changes of a state's value type: those after which stored values can still be read.
  * Fields are matched by name. They may be added (if they have a default or may be null), removed,
  * reordered and widened. That holds at any depth, except in the keys of a map.
  */
private[keystate] object SchemaEvolution {

  /** In a field's metadata: its default, as an Arrow stream. That is its value in entries that were
    * stored before it was added.
    */
  final val Default = "keystate.default"

  /** The state as it continues from a version: with the types that its entries may have. Throws if
    * stored values can't be read.
    *
    * @param recorded
    *   the state as the last version has it; None if the version does not have it
    */
  def continue(declared: StateSpec, recorded: Option[StateFamily]): StateSpec =
    recorded.fold(declared) { family =>
      val before = StateSpec.of(family)
      def refuse(reason: String) =
        throw KeystateErrors.stateChanged(declared.name, before.describe, declared.describe, reason)

      (before.aggregates, declared.aggregates) match {
        case (None, None) =>
        case (Some(old), Some(now)) =>
          old.refusal(before.valueType, now, declared.valueType).foreach(refuse)
        case _ => refuse("Aggregates of columns and functions can't go on from each other.")
      }
      for {
        (old, now) <- before.pattern.zip(declared.pattern)
        (part, was, is) <- old.difference(now)
      } throw KeystateErrors.patternChanged(declared.name, part, was, is)
      if (before.kindName != declared.kindName) refuse("It is of another kind.")
      if (!before.keyType.zip(declared.keyType).forall((same _).tupled))
        refuse("The type of a map's keys can't change.")
      if (before.order != declared.order) refuse("The order of its keys can't change.")
      if (same(before.valueType, declared.valueType)) declared.copy(schemas = before.schemas)
      else {
        check(before.valueType, declared.valueType).foreach(refuse)
        val old = if (before.schemas.isEmpty) Seq(before.valueType) else before.schemas
        declared.copy(schemas = old :+ withDefaults(before.valueType, declared.valueType))
      }
    }

  /** Why a value of one type can't be read as a value of another. None if it can. */
  def check(from: DataType, to: DataType): Option[String] =
    convert(BoundReference(0, from, nullable = true), from, to, "The value").left.toOption

  /** Expressions that turn a row of one schema into the columns of another. */
  def project(from: StructType, to: StructType): Seq[Expression] =
    fields(from, to, "The value")(i => BoundReference(i, from(i).dataType, nullable = true))
      .fold(reason => throw new IllegalStateException(reason), identity)

  /** Throws if the entries of the checkpoint have another key than the query. */
  def checkKey(recorded: StructType, declared: StructType): Unit = {
    def columns(key: StructType) =
      key.fields.map(f => s"${f.name} ${f.dataType.sql}").mkString(", ")
    if (!same(recorded, declared))
      throw KeystateErrors.keyChanged(columns(recorded), columns(declared))
  }

  /** Whether values of both types are stored in the same form. */
  def same(a: DataType, b: DataType): Boolean = bare(a) == bare(b)

  /** The type without what makes no difference to a stored value. */
  def bare(dataType: DataType): DataType = dataType match {
    case struct: StructType =>
      StructType(struct.map(field => StructField(field.name, bare(field.dataType))))
    case ArrayType(element, _) => ArrayType(bare(element))
    case MapType(key, value, _) => MapType(bare(key), bare(value))
    case other => other
  }

  /** The new type, with the defaults of the fields that the old type does not have. */
  private def withDefaults(from: DataType, to: DataType): DataType = (from, to) match {
    case (a: StructType, b: StructType) =>
      StructType(b.map { field =>
        a.find(_.name == field.name) match {
          case Some(old) => StructField(field.name, withDefaults(old.dataType, field.dataType))
          case None => StructField(field.name, bare(field.dataType), metadata = field.metadata)
        }
      })
    case (ArrayType(a, _), ArrayType(b, _)) => ArrayType(withDefaults(a, b))
    case (MapType(_, a, _), MapType(key, b, _)) => MapType(bare(key), withDefaults(a, b))
    case _ => bare(to)
  }

  def toJson(schemas: Seq[DataType]): String = schemas.map(_.json).mkString("[", ",", "]")

  /** The types in such a list, each as JSON. */
  def schemas(json: String): Seq[String] = parse(json) match {
    case JArray(schemas) => schemas.map(compact(_))
    case other => throw new IllegalArgumentException(s"not a list of types: $other")
  }

  private def convert(
      input: Expression,
      from: DataType,
      to: DataType,
      place: String
  ): Either[String, Expression] = (from, to) match {
    case _ if same(from, to) => Right(input)
    case (a: StructType, b: StructType) =>
      fields(a, b, place)(GetStructField(input, _)).map { values =>
        val named = b.fieldNames.toSeq.zip(values)
        val struct = CreateNamedStruct(named.flatMap { case (name, v) => Seq(Literal(name), v) })
        If(IsNull(input), Literal(null, struct.dataType), struct)
      }
    case (ArrayType(a, nullable), ArrayType(b, _)) =>
      val element = NamedLambdaVariable("element", a, nullable)
      convert(element, a, b, s"An element of ${inside(place)}").map { body =>
        ArrayTransform(input, LambdaFunction(body, Seq(element)))
      }
    case (MapType(k, a, nullable), MapType(l, b, _)) if same(k, l) =>
      val key = NamedLambdaVariable("key", k, nullable = false)
      val value = NamedLambdaVariable("value", a, nullable)
      convert(value, a, b, s"A value of ${inside(place)}").map { body =>
        TransformValues(input, LambdaFunction(body, Seq(key, value)))
      }
    case _ if isWider(from, to) => Right(Cast(input, to))
    case _ => Left(s"$place was ${from.sql} and can't become ${to.sql}.")
  }

  private def fields(from: StructType, to: StructType, place: String)(
      get: Int => Expression
  ): Either[String, Seq[Expression]] = {
    val twice = Seq(from, to).find(struct => struct.fieldNames.distinct.length < struct.length)
    val converted = to.fields.toSeq.map { field =>
      from.fieldNames.indexOf(field.name) match {
        case -1 => added(field, place)
        case i =>
          convert(
            get(i),
            from(i).dataType,
            field.dataType,
            s"Field '${field.name}' of ${inside(place)}"
          )
      }
    }
    if (twice.isDefined) Left(s"$place has two fields of one name.")
    else
      converted.collectFirst { case Left(reason) => reason }.toLeft(converted.flatMap(_.toOption))
  }

  private def inside(place: String): String = s"${place.head.toLower}${place.tail}"

  private def added(field: StructField, place: String): Either[String, Expression] =
    if (field.metadata.contains(Default)) Right(default(field))
    else if (field.nullable) Right(Literal(null, field.dataType))
    else
      Left(
        s"Field '${field.name}' of ${inside(place)} is new and must not be null: give it a default."
      )

  private def default(field: StructField): Literal = {
    val stream = Base64.getDecoder.decode(field.metadata.getString(Default))
    val schema = new StructType().add("value", field.dataType)
    // The Arrow format of the stored default, not the query's.
    new ArrowStreams("UTC", largeVarTypes = false).read(stream) { column =>
      val first = new ColumnarArray(column, 0, 1).get(0, field.dataType)
      val row = UnsafeProjection.create(schema)(InternalRow(first)).copy()
      Literal(row.get(0, field.dataType), field.dataType)
    }
  }

  private val integers = Seq(ByteType, ShortType, IntegerType, LongType)

  /** Whether every value of one type is also a value of the other. */
  private def isWider(from: DataType, to: DataType): Boolean = (from, to) match {
    case (FloatType, DoubleType) => true
    case (a: DecimalType, b: DecimalType) =>
      b.scale >= a.scale && b.precision - b.scale >= a.precision - a.scale
    case _ =>
      val i = integers.indexOf(from)
      i >= 0 && i < integers.indexOf(to)
  }
}
