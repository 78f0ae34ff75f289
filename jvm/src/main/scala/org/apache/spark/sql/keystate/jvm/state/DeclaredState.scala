package org.apache.spark.sql.keystate.jvm.state

import scala.annotation.nowarn
import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.types.StructType

import keystate.errors.KeystateErrors
import keystate.{FoldingStateDescriptor, StateDescriptor, TypeInformation, ValueStateDescriptor}
import org.apache.spark.sql.keystate.encoding.{ObjectCodec, OrderedKeyCodec, StoredOrder}
import org.apache.spark.sql.keystate.spec.{FieldDefaults, StateKind, StateSpec}

/** A state that a JVM function declared, with the encoders of its values and user keys. They are
  * bound on the driver, because an unbound encoder does not survive serialisation.
  */
private[keystate] final case class JvmStateSpec(
    spec: StateSpec,
    value: ExpressionEncoder[Any],
    key: Option[ExpressionEncoder[Any]]
)

private[keystate] object JvmStateSpec {
  def apply(
      kindName: String,
      kind: StateKind,
      descriptor: StateDescriptor[_],
      valueType: TypeInformation[_],
      keyType: Option[TypeInformation[_]] = None,
      order: StoredOrder = StoredOrder.Natural,
      isBroadcast: Boolean = false
  ): JvmStateSpec = {
    val name = descriptor.name
    val value = encoder(name, valueType)
    val key = keyType.map(encoder(name, _))
    val valueOf = ObjectCodec.dataType(value)
    val withDefaults = KeystateErrors.inState(name, s"of ${valueOf.sql}") {
      FieldDefaults.in(valueOf, value.encoder, defaultOf(descriptor))
    }
    val spec = StateSpec(
      name,
      kind,
      kindName,
      withDefaults,
      key.map(ObjectCodec.dataType(_)),
      order,
      descriptor.getTtlConfig.timeToLive,
      isBroadcast = isBroadcast,
      maxEntries = descriptor.getMaxEntries
    )
    spec.keyType.foreach { key =>
      try OrderedKeyCodec(key, order)
      catch {
        case e: IllegalArgumentException =>
          throw KeystateErrors.declaration(s"The keys of state '$name': ${e.getMessage}", e)
      }
    }
    JvmStateSpec(spec, value, key)
  }

  @nowarn("cat=deprecation")
  private def defaultOf(descriptor: StateDescriptor[_]): Any = descriptor match {
    case value: ValueStateDescriptor[_] => value.default
    case folding: FoldingStateDescriptor[_, _] => folding.initial
    case _ => null
  }

  private def encoder(name: String, declared: TypeInformation[_]): ExpressionEncoder[Any] = {
    val encoder =
      try ObjectCodec.expression(declared.encoder)
      catch {
        case NonFatal(e) =>
          throw KeystateErrors.declaration(s"The type of state '$name': ${e.getMessage}", e)
      }
    val optional = !encoder.isSerializedAsStructForTopLevel &&
      encoder.schema.head.dataType.isInstanceOf[StructType]
    if (optional)
      throw KeystateErrors.declaration(
        s"The type of state '$name' is an Option of a struct: declare the struct, null is none."
      )
    ObjectCodec.bound(encoder)
  }
}
