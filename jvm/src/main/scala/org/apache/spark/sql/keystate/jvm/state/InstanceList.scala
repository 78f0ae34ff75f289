package org.apache.spark.sql.keystate.jvm.state

import java.util.Base64

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection
import org.apache.spark.sql.types.{DataType, StructType}
import org.apache.spark.sql.util.ArrowUtils
import org.apache.spark.sql.vectorized.{ArrowColumnVector, ColumnarArray}

import keystate.ListState
import keystate.errors.KeystateErrors
import org.apache.spark.sql.keystate.encoding.{ArrowStreams, ObjectCodec}
import org.apache.spark.sql.keystate.spec.SchemaEvolution

/** The current elements of one list, in the form of rows: so each keeps its content, even if the
  * function changes its object later.
  */
private[keystate] final class InstanceList(declared: JvmStateSpec, restored: Seq[String] = Nil)
    extends ListState[Any] {
  private val format = new OperatorElements(declared)
  private var elements = format.decode(restored).toVector

  /** Keeps its elements, and returns what makes them its elements again. */
  def keep(): () => Unit = {
    val kept = elements
    () => elements = kept
  }

  def encoded: Seq[String] = format.encode(elements)

  override def get(): Iterable[Any] = elements.view.map(format.toObject)
  override def add(value: Any): Unit = elements :+= format.fromObject(value)
  override def addAll(values: IterableOnce[Any]): Unit = elements ++= taken(values)
  override def update(values: IterableOnce[Any]): Unit = elements = taken(values)

  // Each value is encoded immediately: an iterator may return the same object again with another
  // content.
  private def taken(values: IterableOnce[Any]): Vector[Any] =
    values.iterator.map(format.fromObject).toVector

  override def clear(): Unit = elements = Vector.empty
}

/** The elements of a list of operator state, as the checkpoint has them. Each is an Arrow stream of
  * its own in Base64, so that elements can be distributed one by one. The Python worker writes and
  * reads the same format.
  */
private[keystate] final class OperatorElements(declared: JvmStateSpec) {
  private val spec = declared.spec
  private val codec = new ObjectCodec(declared.value)
  private val format = new ArrowStreams("UTC", largeVarTypes = false)

  private def schema(element: DataType) = new StructType().add("element", element)

  /** The element as a row's field has it. */
  def fromObject(element: Any): Any =
    KeystateErrors.inState(spec.name, spec.describe)(codec.field(element))

  def toObject(field: Any): Any = codec.fromField(InternalRow(field), 0)

  def encode(fields: Seq[Any]): Seq[String] = fields.map { field =>
    val stream = format.write(schema(spec.valueType)) { writers =>
      writers.head.write(InternalRow(field), 0)
      1
    }
    Base64.getEncoder.encodeToString(stream)
  }

  def decode(encoded: Seq[String]): Seq[Any] = encoded.map { element =>
    format.readVectors(Base64.getDecoder.decode(element)) { root =>
      val vector = root.getVector(0)
      val stored = ArrowUtils.fromArrowField(vector.getField)
      val column = new ColumnarArray(new ArrowColumnVector(vector), 0, 1)
      val field = if (column.isNullAt(0)) null else column.get(0, stored) // get does not look
      val read = readers.getOrElseUpdate(stored, reader(stored))
      read(InternalRow(field)).copy().get(0, spec.valueType)
    }
  }

  private val readers = mutable.HashMap.empty[DataType, UnsafeProjection]

  /** Reads elements of type `stored`, which may be older, as elements of the list's type now. */
  private def reader(stored: DataType): UnsafeProjection = {
    SchemaEvolution.check(stored, spec.valueType).foreach { reason =>
      val before = spec.copy(valueType = stored).describe
      throw KeystateErrors.stateChanged(spec.name, before, spec.describe, reason)
    }
    UnsafeProjection.create(SchemaEvolution.project(schema(stored), schema(spec.valueType)))
  }
}
