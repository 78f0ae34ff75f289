package org.apache.spark.sql.keystate.encoding

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, OutputStream}

import scala.util.Using

import org.apache.arrow.memory.BufferAllocator
import org.apache.arrow.vector.VectorSchemaRoot
import org.apache.arrow.vector.ipc.{ArrowStreamReader, ArrowStreamWriter}

import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.ArrowUtils
import org.apache.spark.sql.vectorized.ArrowColumnVector

import org.apache.spark.sql.keystate.shim.ArrowWriters

/** Reads and writes the Arrow streams of questions and answers. */
private[keystate] final class ArrowStreams(timeZone: String, largeVarTypes: Boolean) {

  /** An Arrow stream of one batch. `fill` writes its columns and returns how many rows it made. */
  def write(schema: StructType)(fill: Seq[ArrowWriters.FieldWriter] => Int): Array[Byte] =
    writeVectors(schema) { root =>
      val writers =
        Seq.tabulate(schema.length)(i => ArrowWriters.of(root.getVector(i)))
      val rows = fill(writers)
      writers.foreach(_.finish())
      rows
    }

  /** An Arrow stream of one batch. `fill` gets its vectors and returns how many rows it made. */
  def writeVectors(schema: StructType)(fill: VectorSchemaRoot => Int): Array[Byte] = {
    val arrowSchema = ArrowWriters.schema(schema, timeZone, largeVarTypes)
    val allocator = ArrowUtils.rootAllocator.newChildAllocator("state page", 0, Long.MaxValue)
    Using.resources(allocator, VectorSchemaRoot.create(arrowSchema, allocator)) { (_, root) =>
      ArrowStreams.allocate(root)
      root.setRowCount(fill(root))
      val bytes = new ByteArrayOutputStream
      write(root, bytes)
      bytes.toByteArray
    }
  }

  /** Writes an Arrow stream of these columns. */
  def write(root: VectorSchemaRoot, out: OutputStream): Unit =
    Using.resource(new ArrowStreamWriter(root, null, out)) { writer =>
      writer.start()
      writer.writeBatch()
      writer.end()
    }

  /** Makes columns that can be filled again and again. */
  def columns(schema: StructType): OpenColumns = {
    val arrowSchema = ArrowWriters.schema(schema, timeZone, largeVarTypes)
    val allocator = ArrowUtils.rootAllocator.newChildAllocator("messages", 0, Long.MaxValue)
    val root = VectorSchemaRoot.create(arrowSchema, allocator)
    ArrowStreams.allocate(root)
    new OpenColumns(root, allocator)
  }

  /** Reads an Arrow stream of one batch, which begins at `start`. */
  def open(bytes: Array[Byte], start: Int): OpenStream = {
    val allocator = ArrowUtils.rootAllocator.newChildAllocator("answer", 0, Long.MaxValue)
    val in = new ByteArrayInputStream(bytes, start, bytes.length - start)
    val reader = new ArrowStreamReader(in, allocator)
    reader.loadNextBatch()
    new OpenStream(reader, allocator)
  }

  /** Reads an Arrow stream of one batch and gives its first column to `use`. */
  def read[T](stream: Array[Byte])(use: ArrowColumnVector => T): T =
    readVectors(stream)(root => use(new ArrowColumnVector(root.getVector(0))))

  /** Reads an Arrow stream of one batch and gives its columns to `use`. */
  def readVectors[T](stream: Array[Byte])(use: VectorSchemaRoot => T): T = {
    val allocator = ArrowUtils.rootAllocator.newChildAllocator("state keys", 0, Long.MaxValue)
    Using.resources(allocator, new ArrowStreamReader(new ByteArrayInputStream(stream), allocator)) {
      (_, reader) =>
        reader.loadNextBatch()
        use(reader.getVectorSchemaRoot)
    }
  }
}

private[keystate] object ArrowStreams {

  /** Allocates memory for columns before they are filled. Vectors without memory share one empty
    * buffer, even across tasks, and Arrow writes the length into it: a task would send what another
    * one has just written there. It is little memory, because a task may have few rows.
    */
  def allocate(root: VectorSchemaRoot): Unit = root.getFieldVectors.forEach { vector =>
    vector.setInitialCapacity(FirstRows)
    vector.allocateNew()
  }

  private final val FirstRows = 16
}

/** Columns with their memory. */
private[keystate] final class OpenColumns(val root: VectorSchemaRoot, allocator: BufferAllocator)
    extends AutoCloseable {
  override def close(): Unit = {
    root.close()
    allocator.close()
  }
}

/** An Arrow stream whose batch is in memory. */
private[keystate] final class OpenStream(reader: ArrowStreamReader, allocator: BufferAllocator)
    extends AutoCloseable {
  def root: VectorSchemaRoot = reader.getVectorSchemaRoot

  override def close(): Unit = {
    reader.close()
    allocator.close()
  }
}
