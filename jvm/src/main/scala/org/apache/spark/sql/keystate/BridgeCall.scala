package org.apache.spark.sql.keystate

import java.lang.reflect.{InvocationTargetException, Method, Modifier}
import java.nio.charset.StandardCharsets.UTF_8
import java.util.Base64

import scala.jdk.CollectionConverters._

import org.json4s.jackson.JsonMethods.{compact, parse, render}
import org.json4s.{JArray, JBool, JInt, JNull, JObject, JString, JValue}
import org.sparkproject.connect.protobuf.{Any => ProtoAny, CodedInputStream}

import org.apache.spark.SparkEnv
import org.apache.spark.connect.proto
import org.apache.spark.sql.catalyst.expressions.{AttributeReference, Expression, PythonUDF}
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan}
import org.apache.spark.sql.classic.ExpressionUtils.column
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.connect.config.Connect
import org.apache.spark.sql.connect.planner.SparkConnectPlanner
import org.apache.spark.sql.types.StringType
import org.apache.spark.sql.{Column, Dataset, Row}

import keystate.errors.KeystateErrors

/** A client's call of a method, as JSON: `{"method": ..., "arguments": [...]}`.
  *
  * An argument is a string, a number, a boolean, a list of arguments, or an object with one field
  * that holds a message of Spark Connect in Base64: `relation` for a Dataset, `expression` for a
  * Column, `function` for a pickled Python object.
  */
private[keystate] final class BridgeCall(method: String, arguments: Seq[JValue]) {

  /** The plan of the method's result: a returned Dataset's own plan; for another value, one row
    * with the value as JSON. The method is called each time the plan is made. A method that returns
    * no Dataset may change something; so it is called only to execute the plan, and not to find its
    * schema.
    */
  def on(bridge: AnyRef, planner: SparkConnectPlanner): LogicalPlan = {
    // The bridge has one method of each name. What all objects have is not for clients.
    val called = bridge.getClass.getMethods
      .filter(m => !Modifier.isStatic(m.getModifiers) && !m.isSynthetic)
      .filter(_.getDeclaringClass != classOf[Object])
      .find(m => m.getName == method && m.getParameterCount == arguments.size)
      .getOrElse(throw KeystateErrors.unknownCall(method, arguments.size))
    val isData = classOf[Dataset[_]].isAssignableFrom(called.getReturnType)
    if (isData || planner.executeHolderOpt.isDefined)
      invoke(bridge, called, new BridgeArguments(planner)) match {
        case data: ClassicDataset[_] => data.queryExecution.analyzed
        case value => BridgeCall.relation(Seq(BridgeCall.json(value)))
      }
    else BridgeCall.relation(Nil)
  }

  private def invoke(bridge: AnyRef, called: Method, decoded: BridgeArguments): Any = {
    val values = arguments.zip(called.getParameterTypes).map { case (argument, parameter) =>
      decoded.value(argument, parameter)
    }
    try called.invoke(bridge, values.map(_.asInstanceOf[AnyRef]): _*)
    catch { case e: InvocationTargetException => throw e.getCause }
  }
}

private[keystate] object BridgeCall {

  /** Its number is raised when the messages change; python/keystate/_jvm/connect.py has it too. */
  val TypeUrl = "keystate/bridge/2"

  /** The call in a relation of a client; none if it is for another plugin. */
  def read(relation: Array[Byte]): Option[BridgeCall] = {
    val message = ProtoAny.parseFrom(relation)
    if (message.getTypeUrl != TypeUrl) None
    else
      parse(new String(message.getValue.toByteArray, UTF_8)) match {
        case JObject(List(("method", JString(method)), ("arguments", JArray(arguments)))) =>
          Some(new BridgeCall(method, arguments))
        case other => throw KeystateErrors.badCall(compact(render(other)).take(100))
      }
  }

  private def relation(rows: Seq[String]): LocalRelation =
    LocalRelation.fromExternalRows(
      Seq(AttributeReference("result", StringType)()),
      rows.map(Row(_))
    )

  private def json(value: Any): String = compact(render(value match {
    case text: String => JString(text)
    case flag: Boolean => JBool(flag)
    case number: Int => JInt(number)
    case number: Long => JInt(number)
    case null => JNull // of a method that returns nothing
    case other => throw new IllegalStateException(s"unexpected result $other")
  }))
}

/** Converts a client's arguments to those of a method. */
private final class BridgeArguments(planner: SparkConnectPlanner) {
  def value(argument: JValue, parameter: Class[_]): Any = argument match {
    case JString(text) => text
    case JBool(flag) => flag
    // In a list as py4j gives it: an Int if it is one.
    case JInt(number) =>
      if (parameter == classOf[Int] || parameter == classOf[Object] && number.isValidInt)
        Int.box(number.intValue)
      else Long.box(number.longValue)
    case JArray(several) => several.map(value(_, classOf[Object])).asJava
    case JObject(List(("relation", JString(message)))) =>
      ClassicDataset.ofRows(
        planner.session,
        planner.transformRelation(proto.Relation.parseFrom(bytes(message)))
      )
    case JObject(List(("expression", JString(message)))) => columnOf(message)
    case JObject(List(("function", JString(message)))) =>
      expressionOf(message).asInstanceOf[PythonUDF].func
    case other => throw KeystateErrors.badCall(compact(render(other)).take(100))
  }

  private def columnOf(message: String): Column = column(expressionOf(message))

  private def expressionOf(message: String): Expression =
    planner.transformExpression(proto.Expression.parseFrom(bytes(message)))

  /** A message may be nested as deep as Spark Connect allows, which is more than the default. */
  private def bytes(message: String): CodedInputStream = {
    val in = CodedInputStream.newInstance(Base64.getDecoder.decode(message))
    in.setRecursionLimit(SparkEnv.get.conf.get(Connect.CONNECT_GRPC_MARSHALLER_RECURSION_LIMIT))
    in
  }
}
