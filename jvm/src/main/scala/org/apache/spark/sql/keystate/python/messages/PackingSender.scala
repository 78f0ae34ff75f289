package org.apache.spark.sql.keystate.python.messages

import org.apache.arrow.vector.complex.StructVector
import org.apache.arrow.vector.{VarBinaryVector, VectorSchemaRoot}

import org.apache.spark.sql.catalyst.InternalRow

import org.apache.spark.sql.keystate.spec.Protocol

/** Sends messages as bytes: those of few rows packed, others as Arrow streams.
  *
  * @param sender
  *   packs, or writes into the vectors of `packing`
  */
private[python] final class PackingSender(
    root: VectorSchemaRoot,
    sender: RowSender,
    packing: Packing
) extends MessageSender {
  private val struct = root.getVector(0).asInstanceOf[StructVector]
  private val vector = struct.getChild(Protocol.Message.Packed).asInstanceOf[VarBinaryVector]

  override def fill(input: Iterator[InternalRow]): Boolean = {
    val more = sender.fill(input)
    if (more) {
      val bytes = sender.packed.getOrElse(packing.stream)
      vector.setSafe(0, bytes.array, 0, bytes.size)
      vector.setValueCount(1)
      struct.setIndexDefined(0)
      root.setRowCount(1)
    }
    more
  }

  override def reset(): Unit = {
    sender.reset()
    vector.reset()
    struct.reset()
  }
}
