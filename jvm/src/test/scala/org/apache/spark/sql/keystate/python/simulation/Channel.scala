package org.apache.spark.sql.keystate.python.simulation

import java.io.{ByteArrayOutputStream, IOException, InputStream}
import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.apache.arrow.vector.IntVector
import org.apache.arrow.vector.complex.StructVector
import org.apache.arrow.vector.ipc.{ArrowStreamReader, ArrowStreamWriter}
import org.json4s.JsonAST.{JInt, JObject, JValue}
import org.json4s.jackson.JsonMethods

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.ArrowUtils
import org.apache.spark.sql.vectorized.{ArrowColumnVector, ColumnVector, ColumnarBatch}

import org.apache.spark.sql.keystate.encoding.ArrowStreams
import org.apache.spark.sql.keystate.python.Conversation
import org.apache.spark.sql.keystate.spec.Protocol

/** What is between a task and its worker: it takes the place of Spark's runner. When the task reads
  * answers, the seed decides what happens until there are some: the task writes another message,
  * the worker gets bytes of messages, a question is asked, the worker gets bytes of the reply.
  *
  * @param step
  *   is called before each of these
  */
private[simulation] final class Channel(
    worker: WorkerProcess,
    task: JValue,
    settings: Settings,
    random: Random,
    fault: Option[Fault],
    story: Story,
    step: () => Unit
) {
  import WorkerProcess._

  private val messages = new Bytes
  private val answers = new Bytes
  private var messagesEnded = false
  private var waits: Waits = Done
  private var begun = false
  private var side: SideChannel = _

  /** The worker's answers to the messages of a conversation. */
  def converse(
      schema: StructType,
      conversation: Conversation,
      input: Iterator[InternalRow]
  ): Iterator[ColumnarBatch] = {
    val columns = new ArrowStreams("UTC", largeVarTypes = false).columns(schema)
    val sender = conversation.sender(columns.root)
    val out = new ByteArrayOutputStream
    val writer = new ArrowStreamWriter(columns.root, null, out)
    writer.start()
    var rows = 0
    val counted = input.map { row =>
      rows += 1
      row
    }

    def write(): Unit = {
      val before = rows
      if (sender.fill(counted)) {
        writer.writeBatch()
        sender.reset()
        story.tell(s"message of ${rows - before} rows", "a message")
        if (!input.hasNext && rows == before) story.reach("a message without rows")
      } else {
        writer.end()
        messagesEnded = true
        story.tell("no more messages")
      }
      messages.add(out.toByteArray)
      out.reset()
    }

    begin()
    val stream = new InputStream {
      override def read(): Int = throw new UnsupportedOperationException
      override def read(buffer: Array[Byte], offset: Int, length: Int): Int = {
        while (answers.isEmpty && !isOver || random.nextInt(4) == 0 && canGoOn) goOn(() => write())
        if (answers.isEmpty) -1
        else {
          val taken = answers.take(piece(math.min(length, answers.size)))
          System.arraycopy(taken, 0, buffer, offset, taken.length)
          taken.length
        }
      }
    }
    val allocator = ArrowUtils.rootAllocator.newChildAllocator("simulated", 0, Long.MaxValue)
    val reader = new ArrowStreamReader(stream, allocator)
    closing = () => {
      reader.close()
      allocator.close()
      columns.close()
      if (side != null) side.close()
      if (!begun || !isOver) hangUp()
    }
    Iterator.continually(()).takeWhile(_ => reader.loadNextBatch()).map { _ =>
      val root = reader.getVectorSchemaRoot
      spoil(root.getVector(0).asInstanceOf[StructVector])
      val vectors = root.getFieldVectors.asScala.map(new ArrowColumnVector(_)).toArray[ColumnVector]
      story.reach("an answer")
      new ColumnarBatch(vectors, root.getRowCount)
    }
  }

  /** Puts the fault into an answer, if it is one of answers. */
  private def spoil(answer: StructVector): Unit = {
    def number(name: String) = answer.getChild(name).asInstanceOf[IntVector]
    val cacheEpoch = number(Protocol.Answer.CacheEpoch)
    if (cacheEpoch.get(0) >= 0) fault.foreach {
      case Fault.NextCacheEpoch => cacheEpoch.set(0, cacheEpoch.get(0) + 1)
      case Fault.ReadTooFar =>
        val until = number(Protocol.Answer.Until)
        until.set(0, until.get(0) + 1)
      case _ =>
    }
  }

  private var closing: () => Unit = () => ()

  /** Ends both ends. */
  def close(): Unit = {
    closing()
    closing = () => ()
  }

  private def begin(): Unit = {
    begun = true
    run('T', JsonMethods.compact(task).getBytes(UTF_8))
  }

  /** The worker sees that the task is gone. */
  private def hangUp(): Unit = {
    gone = true
    // Refused, or it would try to connect for half a minute.
    while (!isOver) run(if (waits == ToConnect) 'b' else 'f', Array.emptyByteArray)
  }

  private def isOver = waits match {
    case Done => true
    case Failed(error) if answers.isEmpty && !gone => throw new WorkerFailed(error)
    case Failed(_) => answers.isEmpty || gone
    case _ => false
  }

  private var gone = false

  def dies(): Unit = {
    hangUp()
    throw new WorkerFailed("it died")
  }

  private def run(kind: Char, content: Array[Byte]): Unit =
    waits = worker.run(kind, content)(answers.add, question => side.ask(question))

  private def canGoOn = canWrite || canFeed || canReply

  private def canWrite = !messagesEnded && messages.added < settings.window

  private def canFeed =
    waits.isInstanceOf[ForMessages] && (!messages.isEmpty || messagesEnded)

  private def canReply = waits == ToConnect || waits.isInstanceOf[ForReply]

  private def goOn(write: () => Unit): Unit = {
    step()
    val can = Seq(canWrite -> write, canFeed -> (() => feed()), canReply -> (() => reply()))
      .collect { case (true, action) => action }
    if (can.isEmpty) throw new AssertionError(s"nobody can go on: the worker waits $waits")
    can(random.nextInt(can.size))()
  }

  private def feed(): Unit = waits match {
    case ForMessages(most) =>
      run('b', messages.take(piece(math.min(most, messages.size))))
    case other => throw new IllegalStateException(other.toString)
  }

  private def reply(): Unit = waits match {
    case ToConnect =>
      if (side != null) side.close()
      side = new SideChannel(settings.pageEntries, fault, story)
      run('b', Array[Byte](1))
    case ForReply(most) if side.hasAsked => side.answer()
    case ForReply(most) =>
      run('b', side.reply.take(piece(math.min(most, side.reply.size))))
    case other => throw new IllegalStateException(other.toString)
  }

  /** How many of so many bytes go at once. */
  private def piece(most: Int): Int = random.nextInt(4) match {
    case 0 if most > 0 => 1 + random.nextInt(math.min(most, 16))
    case 1 if most > 0 => 1 + random.nextInt(most)
    case _ => most
  }
}

/** The worker ended in an error. */
private[simulation] final class WorkerFailed(error: String) extends IOException(error)

/** Bytes on their way. */
private[simulation] final class Bytes {
  private var parts = Vector.empty[Array[Byte]]

  def add(bytes: Array[Byte]): Unit = if (bytes.nonEmpty) parts :+= bytes

  /** How many parts were added of which something is left. */
  def added: Int = parts.size

  def isEmpty: Boolean = parts.isEmpty

  /** How many bytes can be taken at once. */
  def size: Int = parts.headOption.fold(0)(_.length)

  def take(count: Int): Array[Byte] = parts.headOption.fold(Array.emptyByteArray) { first =>
    val (taken, left) = first.splitAt(count)
    parts = if (left.isEmpty) parts.tail else left +: parts.tail
    taken
  }
}

/** The worker's connection to the state server. */
private[simulation] final class SideChannel(pageEntries: Int, fault: Option[Fault], story: Story)
    extends AutoCloseable {
  import org.apache.spark.sql.keystate.python.{StateServer, TestWorker}

  private val channel = {
    val address = StateServer.ofThisJvm.address
    val channel = TestWorker.socket(address)
    channel.connect(TestWorker.socketAddress(address))
    channel
  }
  private var asked = Vector.empty[Array[Byte]]
  private var known = false

  val reply = new Bytes

  def ask(question: Array[Byte]): Unit = asked :+= question

  def hasAsked: Boolean = asked.nonEmpty

  /** Asks the server, and has its reply to send on, nothing if it hangs up. */
  def answer(): Unit = {
    val question = asked.head
    asked = asked.tail
    try
      if (known) {
        val (text, data) = parts(question)
        val json = smaller(JsonMethods.parse(new String(text, UTF_8)).asInstanceOf[JObject])
        story.tell(s"question ${new String(JsonMethods.compact(json))}", "a question")
        send(frame(JsonMethods.compact(json).getBytes(UTF_8)) ++ frame(data))
        val (found, page) = (read(read(4)), read(read(4)))
        story.tell(s"reply ${new String(found, UTF_8)}, ${page.length} bytes")
        reply.add(spoiled(frame(found) ++ frame(page)))
      } else {
        send(question)
        val answer = read(4)
        known = ByteBuffer.wrap(answer).getInt == 1
        reply.add(answer)
      }
    catch {
      case _: IOException => story.reach("the server hangs up")
    }
  }

  private var last = Array.emptyByteArray

  /** A reply with the fault, if it is one of replies. */
  private def spoiled(reply: Array[Byte]): Array[Byte] = fault match {
    case Some(Fault.LateReply) =>
      val late = if (last.isEmpty) reply else last
      last = reply
      late
    case Some(Fault.AllRead) =>
      val (text, data) = parts(reply)
      val told = JsonMethods.parse(new String(text, UTF_8)).transformField {
        case (Protocol.Reply.Read, _) => Protocol.Reply.Read -> JInt(Int.MaxValue)
      }
      frame(JsonMethods.compact(told).getBytes(UTF_8)) ++ frame(data)
    case _ => reply
  }

  private def smaller(question: JObject): JObject = JObject(question.obj.map {
    case (Protocol.Question.Limit, JInt(limit)) =>
      Protocol.Question.Limit -> JInt(limit.min(BigInt(pageEntries)))
    case other => other
  })

  private def parts(question: Array[Byte]) = {
    val all = ByteBuffer.wrap(question)
    def part() = {
      val bytes = new Array[Byte](all.getInt)
      all.get(bytes)
      bytes
    }
    (part(), part())
  }

  private def frame(bytes: Array[Byte]) =
    ByteBuffer.allocate(4).putInt(bytes.length).array ++ bytes

  private def send(bytes: Array[Byte]): Unit = {
    val all = ByteBuffer.wrap(bytes)
    while (all.hasRemaining) channel.write(all)
  }

  private def read(length: Array[Byte]): Array[Byte] = read(ByteBuffer.wrap(length).getInt)

  private def read(length: Int): Array[Byte] = {
    val all = ByteBuffer.allocate(length)
    while (all.hasRemaining) if (channel.read(all) < 0) throw new IOException("it hung up")
    all.array
  }

  override def close(): Unit = channel.close()
}
