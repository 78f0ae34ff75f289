package org.apache.spark.sql.keystate.encoding

import java.lang.reflect.Modifier

import org.apache.spark.sql.catalyst.encoders.AgnosticEncoder
import org.apache.spark.sql.catalyst.encoders.AgnosticEncoders._

/** Decides for which types a value need not be copied: nobody can change it, and a read returns
  * exactly the written value. In doubt values are copied.
  */
private[keystate] object PlainValues {

  /** Whether all values of an encoder's type are plain. */
  def areAllOf(encoder: AgnosticEncoder[_]): Boolean = encoder match {
    case _: PrimitiveLeafEncoder[_] | _: BoxedLeafEncoder[_, _] | StringEncoder => true
    case own: OptionEncoder[_] => areAllOf(own.elementEncoder)
    case own: IterableEncoder[_, _] =>
      isImmutable(own.clsTag.runtimeClass) && areAllOf(own.element)
    case own: MapEncoder[_, _, _] =>
      isImmutable(own.clsTag.runtimeClass) && areAllOf(own.keyEncoder) &&
      areAllOf(own.valueEncoder)
    case own: ProductEncoder[_] =>
      hasOnlyVals(own.clsTag.runtimeClass) && own.fields.forall(field => areAllOf(field.enc))
    case own: RowEncoder => own.fields.forall(field => areAllOf(field.enc))
    case _ => false
  }

  private def isImmutable(collection: Class[_]): Boolean =
    collection.getName.startsWith("scala.collection.immutable.")

  private def hasOnlyVals(cls: Class[_]): Boolean =
    Iterator.iterate[Class[_]](cls)(_.getSuperclass).takeWhile(_ != null).forall { part =>
      part.getDeclaredFields.map(_.getModifiers).forall { modifiers =>
        Modifier.isFinal(modifiers) || Modifier.isStatic(modifiers)
      }
    }
}
