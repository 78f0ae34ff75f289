package keystate;

import static scala.jdk.javaapi.CollectionConverters.asJava;
import static scala.jdk.javaapi.CollectionConverters.asScala;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;

import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.DataStreamWriter;

import keystate.stream.AsyncDataStream;
import keystate.stream.KeyedOps;
import keystate.stream.SourceOps;
import scala.Function1;
import scala.Tuple2;

/** Programs of Flink's documentation in Java, as docs/scala.md says that they are written. */
public final class JavaPrograms {
  private JavaPrograms() {}

  private static TypeInformation<Tuple2<Long, Long>> pairs() {
    return TypeInformation.of(Encoders.tuple(Encoders.LONG(), Encoders.LONG()));
  }

  public static final class CountWindowAverage
      extends RichFlatMapFunction<Tuple2<Long, Long>, Tuple2<Long, Long>> {
    private transient ValueState<Tuple2<Long, Long>> sum;

    @Override
    public void flatMap(Tuple2<Long, Long> input, Collector<Tuple2<Long, Long>> out) {
      // access the state value
      Tuple2<Long, Long> currentSum = sum.value();

      // update the count, and add the second field of the input value
      currentSum = new Tuple2<>(currentSum._1() + 1, currentSum._2() + input._2());

      // update the state
      sum.update(currentSum);

      // if the count reaches 2, emit the average and clear the state
      if (currentSum._1() >= 2) {
        out.collect(new Tuple2<>(input._1(), currentSum._2() / currentSum._1()));
        sum.clear();
      }
    }

    @Override
    public void open(Configuration config) {
      ValueStateDescriptor<Tuple2<Long, Long>> descriptor =
          new ValueStateDescriptor<>(
              "average", // the state name
              pairs(), // type information
              new Tuple2<>(0L, 0L)); // default value of the state, if nothing was set
      sum = getRuntimeContext().getState(descriptor);
    }
  }

  public static Dataset<Tuple2<Long, Long>> averages(Dataset<Tuple2<Long, Long>> data) {
    return new KeyedOps<>(data)
        .keyBy(
            (Function1<Tuple2<Long, Long>, Long> & Serializable) pair -> pair._1(),
            TypeInformation.of(Encoders.LONG()))
        .flatMap(new CountWindowAverage(), pairs());
  }

  public static final class BufferingSink
      implements SinkFunction<Long>, CheckpointedFunction {
    public static final ConcurrentLinkedQueue<Long> SENT = new ConcurrentLinkedQueue<>();

    private final int threshold;

    private transient ListState<Long> checkpointedState;

    private List<Long> bufferedElements;

    public BufferingSink(int threshold) {
      this.threshold = threshold;
      this.bufferedElements = new ArrayList<>();
    }

    @Override
    public void invoke(Long value) {
      bufferedElements.add(value);
      if (bufferedElements.size() == threshold) {
        for (Long element : bufferedElements) {
          // send it to the sink
          SENT.add(element);
        }
        bufferedElements.clear();
      }
    }

    @Override
    public void snapshotState(FunctionSnapshotContext context) {
      checkpointedState.clear();
      for (Long element : bufferedElements) {
        checkpointedState.add(element);
      }
    }

    @Override
    public void initializeState(FunctionInitializationContext context) {
      ListStateDescriptor<Long> descriptor =
          new ListStateDescriptor<>(
              "buffered-elements", TypeInformation.of(Encoders.LONG()));

      checkpointedState = context.getOperatorStateStore().getListState(descriptor);

      if (context.isRestored()) {
        for (Long element : asJava(checkpointedState.get())) {
          bufferedElements.add(element);
        }
      }
    }
  }

  public static final class CounterSource extends RichParallelSourceFunction<Long>
      implements ListCheckpointed<Long> {

    /** current offset for exactly once semantics */
    private Long offset = 0L;

    /** flag for job cancellation */
    private volatile boolean isRunning = true;

    @Override
    public void run(SourceFunction.SourceContext<Long> ctx) {
      final Object lock = ctx.getCheckpointLock();

      while (isRunning) {
        // output and state update are atomic
        synchronized (lock) {
          ctx.collect(offset);
          offset += 1;
        }
      }
    }

    @Override
    public void cancel() {
      isRunning = false;
    }

    @Override
    public List<Long> snapshotState(long checkpointId, long checkpointTimestamp) {
      return Collections.singletonList(offset);
    }

    @Override
    public void restoreState(List<Long> state) {
      for (Long s : state) offset = s;
    }
  }

  /** Counts into the sink, and ends after so many rows. */
  public static DataStreamWriter<?> count(SparkSession spark, int threshold, long rows) {
    SourceOps ops = new SourceOps(spark);
    Dataset<Long> numbers =
        ops.addSource(
            new CounterSource(),
            1,
            1000,
            Time.milliseconds(100),
            rows,
            Time.minutes(10),
            scala.Option.empty(),
            TypeInformation.of(Encoders.LONG()));
    return new KeyedOps<>(numbers).stream().addSink(new BufferingSink(threshold));
  }

  /** Asks something for each element, with state; Flink's sample of an async request. */
  public static final class AsyncRequest
      extends RichAsyncFunction<Tuple2<Long, Long>, Tuple2<Long, Long>> {
    private transient ValueState<Long> asked;

    @Override
    public void open(Configuration config) {
      asked =
          getRuntimeContext()
              .getState(
                  new ValueStateDescriptor<>("asked", TypeInformation.of(Encoders.LONG()), 0L));
    }

    @Override
    public void asyncInvoke(
        Tuple2<Long, Long> input, ResultFuture<Tuple2<Long, Long>> resultFuture) {
      CompletableFuture.supplyAsync(() -> 2 * input._2())
          .thenAccept(
              answer ->
                  resultFuture.complete(
                      () -> {
                        asked.update(asked.value() + 1);
                        return asScala(List.of(new Tuple2<>(answer, asked.value())));
                      }));
    }
  }

  public static Dataset<Tuple2<Long, Long>> asked(Dataset<Tuple2<Long, Long>> data) {
    return AsyncDataStream.orderedWait(
        new KeyedOps<>(data)
            .keyBy(
                (Function1<Tuple2<Long, Long>, Long> & Serializable) pair -> pair._1(),
                TypeInformation.of(Encoders.LONG())),
        new AsyncRequest(),
        5,
        TimeUnit.SECONDS,
        100,
        pairs());
  }
}
