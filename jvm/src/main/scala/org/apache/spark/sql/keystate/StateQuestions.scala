package org.apache.spark.sql.keystate

import java.io.{ByteArrayInputStream, ByteArrayOutputStream}
import java.util.Base64

import scala.util.Using

import org.apache.arrow.vector.VectorSchemaRoot
import org.apache.arrow.vector.ipc.{ArrowStreamReader, ArrowStreamWriter}
import org.json4s.{DefaultFormats, Formats}
import org.json4s.JsonAST.{JInt, JObject, JString}

import org.apache.spark.sql.execution.arrow.{ArrowFieldWriter, ArrowWriter}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.ArrowUtils
import org.apache.spark.sql.vectorized.ArrowColumnVector

/** Which entries of a key are asked for: from entry key `start` (None: the first) to `end`, exclusive
  * (None: the last), backwards if `reverse`, at most about `limit`.
  */
private[keystate] final case class PageRequest(
    start: Option[Array[Byte]],
    end: Option[Array[Byte]],
    reverse: Boolean,
    limit: Int
) {

  /** The request for what follows the page that ended before entry key `next`. */
  def after(next: Array[Byte]): PageRequest =
    if (reverse) copy(end = Some(next)) else copy(start = Some(next))
}

/** One page of a state's entries, and where the next one begins if there is more. */
private[keystate] final case class Page(data: Array[Byte], next: Option[Array[Byte]])

/** Answers a worker's questions about one task's states by key. */
private[keystate] final class StateQuestions(
    task: AskedKeys,
    channels: Seq[StateChannel],
    pages: PageFormat
) extends StateServer.Answerer {
  private implicit val formats: Formats = DefaultFormats

  override def apply(question: JObject, keys: Array[Byte]): (JObject, Array[Byte]) = {
    val channel = channels((question \ "state").extract[Int])
    val generation = (question \ "generation").extract[Int]
    val slots = task.slotsOf(generation)
    val slot = (question \ "slot").extract[Int]
    val (group, key) = (slots.group(slot), slots.key(slot))
    (question \ "op").extract[String] match {
      case "get" => (JObject(), pages.read(keys)(channel.find(group, key, _, pages)))
      case "scan" =>
        val page = channel.page(group, key, request(question, channel, key, keys), pages)
        val next = page.next.map(key => "next" -> JString(Base64.getEncoder.encodeToString(key)))
        val read = "read" -> JInt(task.readBefore(generation))
        (JObject(read :: next.toList), page.data)
    }
  }

  private def request(
      question: JObject,
      channel: StateChannel,
      key: Array[Byte],
      userKeys: Array[Byte]
  ): PageRequest = {
    val bounds = (question \ "bounds").extract[Seq[String]]
    val encoded =
      if (bounds.isEmpty) Nil else pages.read(userKeys)(channel.entryKeys(key, _))
    val bound = bounds.zip(encoded).toMap
    val request = PageRequest(
      start = bound.get("start"),
      end = bound.get("end"),
      reverse = (question \ "reverse").extract[Boolean],
      limit = (question \ "limit").extract[Int]
    )
    val from = (question \ "from").extract[String]
    if (from.isEmpty) request else request.after(Base64.getDecoder.decode(from))
  }
}

/** Reads and writes the Arrow streams of questions and answers. */
private[keystate] final class PageFormat(timeZone: String, largeVarTypes: Boolean) {

  /** An Arrow stream of one batch with what `fill` writes into its columns. */
  def write(schema: StructType)(fill: Seq[ArrowFieldWriter] => Int): Array[Byte] =
    writeVectors(schema) { root =>
      val writers =
        Seq.tabulate(schema.length)(i => ArrowWriter.createFieldWriter(root.getVector(i)))
      val rows = fill(writers)
      writers.foreach(_.finish())
      rows
    }

  /** The same by the vectors of the columns; `fill` returns how many rows it made. */
  def writeVectors(schema: StructType)(fill: VectorSchemaRoot => Int): Array[Byte] = {
    val arrowSchema = ArrowUtils.toArrowSchema(schema, timeZone, largeVarTypes = largeVarTypes)
    val allocator = ArrowUtils.rootAllocator.newChildAllocator("state page", 0, Long.MaxValue)
    Using.resources(allocator, VectorSchemaRoot.create(arrowSchema, allocator)) { (_, root) =>
      root.getFieldVectors.forEach(_.allocateNew())
      root.setRowCount(fill(root))
      val bytes = new ByteArrayOutputStream
      Using.resource(new ArrowStreamWriter(root, null, bytes)) { writer =>
        writer.start()
        writer.writeBatch()
        writer.end()
      }
      bytes.toByteArray
    }
  }

  /** Gives the first column of an Arrow stream of one batch to `use`. */
  def read[T](stream: Array[Byte])(use: ArrowColumnVector => T): T =
    readVectors(stream)(root => use(new ArrowColumnVector(root.getVector(0))))

  /** Gives the columns of an Arrow stream of one batch to `use`. */
  def readVectors[T](stream: Array[Byte])(use: VectorSchemaRoot => T): T = {
    val allocator = ArrowUtils.rootAllocator.newChildAllocator("state keys", 0, Long.MaxValue)
    Using.resources(
      allocator,
      new ArrowStreamReader(new ByteArrayInputStream(stream), allocator)
    ) { (_, reader) =>
      reader.loadNextBatch()
      use(reader.getVectorSchemaRoot)
    }
  }
}
