// The functions of test_operator_state_in_turns.py in Scala.
import java.nio.file.{Files, Path, StandardOpenOption}
import java.time.{Duration, Instant, LocalDate, LocalDateTime}
import java.util.{Collections, List => JList}

import scala.jdk.CollectionConverters._

import keystate._
import org.apache.spark.sql.{DataFrame, Row, SparkSession}
import org.apache.spark.sql.streaming.Trigger
import org.json4s.{DefaultFormats, Formats}
import org.json4s.jackson.{JsonMethods, Serialization}

/** What Python has as a Row of plain data. */
final case class Thing(
    n: Long,
    small: Short,
    text: String,
    ratio: Double,
    flag: Boolean,
    data: Array[Byte],
    day: LocalDate,
    at: Instant,
    local: LocalDateTime,
    price: BigDecimal,
    gap: Duration,
    items: Seq[Option[Int]],
    by: Map[String, Long],
    pair: (Int, String),
    none: Option[Int]
)

/** Keeps the things that it is restored with, and adds one for each row. */
class Remembers extends ProcessFunction[Row, Long] with ListCheckpointed[Thing] {
  @transient private var things: Vector[Thing] = _

  override def open(ctx: RuntimeContext): Unit = if (things == null) things = Vector.empty

  override def processElement(row: Row, ctx: Context, out: Collector[Long]): Unit = {
    things :+= things.head.copy(n = row.getAs[Long]("n"))
    out.collect(things.size.toLong)
  }

  override def restoreState(state: JList[Thing]): Unit = things = state.asScala.toVector
  override def snapshotState(checkpointId: Long, timestamp: Long): JList[Thing] = things.asJava
}

/** Appends lines of so many elements to a file. */
class Buffering(threshold: Int, file: String)
    extends RichSinkFunction[Row]
    with CheckpointedFunction {
  @transient private var checkpointed: ListState[Long] = _
  @transient private var buffer: Vector[Long] = _

  override def initializeState(context: FunctionInitializationContext): Unit = {
    checkpointed = context.getOperatorStateStore.getListState(ListStateDescriptor[Long]("buffered"))
    buffer = checkpointed.get().toVector
  }

  override def invoke(row: Row): Unit = {
    buffer :+= row.getAs[Long]("n")
    if (buffer.size >= threshold) {
      val line = buffer.mkString("", " ", "\n")
      Files.writeString(Path.of(file), line, StandardOpenOption.CREATE, StandardOpenOption.APPEND)
      buffer = Vector.empty
    }
  }

  override def snapshotState(context: FunctionSnapshotContext): Unit = checkpointed.update(buffer)
}

/** Of n instances each emits every nth number. */
class Counter(until: Long)
    extends RichParallelSourceFunction[Long]
    with ListCheckpointed[Long] {
  @volatile private var running = true
  private var offset = 0L

  override def run(ctx: SourceFunction.SourceContext[Long]): Unit = {
    val index = getRuntimeContext.getIndexOfThisSubtask
    val step = getRuntimeContext.getNumberOfParallelSubtasks
    while (running && offset * step + index < until)
      ctx.getCheckpointLock.synchronized {
        ctx.collect(offset * step + index)
        offset += 1
      }
  }

  override def cancel(): Unit = running = false
  override def restoreState(state: JList[Long]): Unit = state.asScala.foreach(offset = _)
  override def snapshotState(checkpointId: Long, timestamp: Long): JList[Long] =
    Collections.singletonList(offset)
}

final case class Shard(id: Int, offset: Long)

/** Emits the numbers of some shards, whose offsets are dealt out; Python knows which there are. */
class Shards(until: Long) extends RichParallelSourceFunction[Shard] with CheckpointedFunction {
  @transient private var state: ListState[Shard] = _
  @volatile private var running = true
  private var offsets = Map.empty[Int, Long]

  override def initializeState(context: FunctionInitializationContext): Unit = {
    state = context.getOperatorStateStore.getListState(ListStateDescriptor[Shard]("shards"))
    offsets = state.get().map(shard => shard.id -> shard.offset).toMap
  }

  override def run(ctx: SourceFunction.SourceContext[Shard]): Unit =
    offsets.keys.foreach { shard =>
      while (running && offsets(shard) < until)
        ctx.getCheckpointLock.synchronized {
          ctx.collect(Shard(shard, offsets(shard)))
          offsets += shard -> (offsets(shard) + 1)
        }
    }

  override def cancel(): Unit = running = false

  override def snapshotState(context: FunctionSnapshotContext): Unit =
    state.update(offsets.map { case (id, offset) => Shard(id, offset) })
}

/** Counts rows of a key in a map for each key group, which it writes as JSON. */
class Sketches extends KeyedProcessFunction[String, Row, Long] with CheckpointedFunction {
  private implicit val formats: Formats = DefaultFormats
  @transient private var counts: Map[Int, Map[String, Long]] = _
  @transient private var parts: Vector[Byte] = _

  override def initializeState(context: FunctionInitializationContext): Unit = {
    counts = context.getRawKeyedStateInputs.map { provider =>
      val json = JsonMethods.parse(new String(provider.getStream.readAllBytes(), "UTF-8"))
      provider.getKeyGroupId -> json.extract[Map[String, Long]]
    }.toMap
    parts = context.getRawOperatorStateInputs.map(_.getStream.read().toByte).toVector
  }

  override def processElement(row: Row, ctx: Context, out: Collector[Long]): Unit = {
    val (key, group) = (ctx.getCurrentKey, getRuntimeContext.getKeyGroup(ctx.getCurrentKey))
    val ofGroup = counts.getOrElse(group, Map.empty)
    val n = ofGroup.getOrElse(key, 0L) + 1
    counts += group -> (ofGroup + (key -> n))
    parts :+= 1
    out.collect(n)
  }

  override def snapshotState(context: FunctionSnapshotContext): Unit = {
    val keyed = context.getRawKeyedOperatorStateOutput
    counts.foreach { case (group, entries) =>
      keyed.startNewKeyGroup(group)
      keyed.write(Serialization.write(entries).getBytes("UTF-8"))
    }
    val raw = context.getRawOperatorStateOutput
    parts.foreach { part =>
      raw.startNewPartition()
      raw.write(part.toInt)
    }
  }
}

object OperatorStates {
  def sketches(rows: DataFrame): DataFrame = rows.keyed("key").process(new Sketches).toDF("n")

  def remembers(rows: DataFrame): DataFrame = rows.stream.process(new Remembers).toDF("size")

  /** Writes what there is, and ends. */
  def buffer(rows: DataFrame, threshold: Int, file: String, checkpoint: String): Unit =
    rows.stream
      .addSink(new Buffering(threshold, file))
      .option("checkpointLocation", checkpoint)
      .trigger(Trigger.AvailableNow())
      .start()
      .awaitTermination()

  /** Counts in two instances into the sink, and ends. */
  def countIntoBuffer(
      spark: SparkSession,
      until: Long,
      maxRows: Int,
      threshold: Int,
      file: String,
      checkpoint: String
  ): Unit = buffer(counter(spark, until, 2, maxRows), threshold, file, checkpoint)

  def counter(spark: SparkSession, until: Long, parallelism: Int, maxRows: Int): DataFrame =
    spark.addSource(new Counter(until), parallelism, maxRows).toDF("n")

  def shards(spark: SparkSession, until: Long, parallelism: Int, maxRows: Int): DataFrame =
    spark.addSource(new Shards(until), parallelism, maxRows).toDF("id", "offset")
}
