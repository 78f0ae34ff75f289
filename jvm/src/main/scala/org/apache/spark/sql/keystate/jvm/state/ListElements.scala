package org.apache.spark.sql.keystate.jvm.state

import java.util.{Base64, Collections, List => JList}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.sql.Encoder
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder

import keystate.ListCheckpointed
import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.encoding.{Encodings, ObjectCodec, PlainData, PlainDataTypes}

/** The elements of a `ListCheckpointed` function, whose list the checkpoint has without a type. In
  * each of them is plain data in Base64, as Python writes it.
  *
  * @param encoder
  *   of the elements, bound to its own columns
  */
private[keystate] final class ListElements(encoder: ExpressionEncoder[Any]) {
  private val codec = new ObjectCodec(encoder)
  private val dataType = ObjectCodec.dataType(encoder)

  def encode(elements: JList[_]): Seq[String] =
    Option(elements).getOrElse(Collections.emptyList).asScala.toSeq.map { element =>
      val field = KeystateErrors.inState(ListElements.Name, s"of ${dataType.sql}") {
        PlainDataTypes.toPlain(InternalRow(codec.field(element)), 0, dataType)
      }
      Base64.getEncoder.encodeToString(PlainData.encode(field))
    }

  def decode(texts: Seq[String]): JList[Any] =
    texts.zipWithIndex.map { case (text, i) => decode(text, i) }.asJava

  private def decode(text: String, i: Int): Any =
    try {
      val plain = PlainData.decode(Base64.getDecoder.decode(text))
      codec.fromField(InternalRow(PlainDataTypes.fromPlain(plain, dataType)), 0)
    } catch {
      case _: PlainData.Pickled => throw KeystateErrors.pickledElement(i)
      case e: PlainDataTypes.Misfit => throw KeystateErrors.otherElement(i, dataType.sql, e)
      case NonFatal(e) => throw KeystateErrors.damagedElement(i, e)
    }
}

private[keystate] object ListElements {

  /** The list's name in the operator state. */
  val Name = "$list"

  /** The encoder of a function's elements, by the type that its class gives the trait. */
  def encoderOf(function: ListCheckpointed[_]): ExpressionEncoder[Any] =
    try {
      val declared: Encoder[_] = function.elementType match {
        case Some(own) => own.encoder
        case None => Encodings.ofArgument(function.getClass, classOf[ListCheckpointed[_]])
      }
      val encoder = ObjectCodec.bound(ObjectCodec.expression(declared))
      PlainDataTypes.check(ObjectCodec.dataType(encoder))
      encoder
    } catch {
      case NonFatal(e) =>
        throw KeystateErrors.declaration(
          s"The elements of ${function.getClass.getName}, a ListCheckpointed, have no type that " +
            s"can be stored: ${e.getMessage} Override its elementType, or be a " +
            "CheckpointedFunction.",
          e
        )
    }
}
