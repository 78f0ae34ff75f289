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
import keystate.stream.KeyedStream;
import keystate.stream.SourceOps;
import scala.Function1;
import scala.Function2;
import scala.Option;
import scala.Tuple2;
import scala.Tuple3;

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

  private static KeyedStream<Tuple2<Long, Long>, Long> byFirst(
      Dataset<Tuple2<Long, Long>> data) {
    return new KeyedOps<>(data)
        .keyBy(
            (Function1<Tuple2<Long, Long>, Long> & Serializable) pair -> pair._1(),
            TypeInformation.of(Encoders.LONG()));
  }

  public static Dataset<Tuple2<Long, Long>> averages(Dataset<Tuple2<Long, Long>> data) {
    return byFirst(data).flatMap(new CountWindowAverage(), pairs());
  }

  public static final class CountWindowFirstEntry
      extends RichFlatMapFunction<Tuple2<Long, Long>, Tuple3<Long, Long, Long>> {
    private transient SortedMapState<Long, Long> state;

    @Override
    public void flatMap(Tuple2<Long, Long> input, Collector<Tuple3<Long, Long, Long>> out) {
      // access the state value
      Long tmpCurrentCount = state.get(input._2());

      // If it hasn't been used before, it will be null
      long count = tmpCurrentCount != null ? tmpCurrentCount : 0L;

      // update the state
      state.put(input._2(), count + 1);

      MapEntry<Long, Long> entry = state.firstEntry();
      out.collect(new Tuple3<>(input._1(), entry.getKey(), entry.getValue()));
    }

    @Override
    public void open(Configuration parameters) {
      state =
          getRuntimeContext()
              .getSortedMapState(
                  new SortedMapStateDescriptor<>(
                      "sortedmapstate", BytewiseComparator.LONG_INSTANCE(), Long.class, Long.class));
    }
  }

  public static Dataset<Tuple3<Long, Long, Long>> firstEntries(Dataset<Tuple2<Long, Long>> data) {
    return byFirst(data)
        .flatMap(
            new CountWindowFirstEntry(),
            TypeInformation.of(
                Encoders.tuple(Encoders.LONG(), Encoders.LONG(), Encoders.LONG())));
  }

  /** The documents' mapWithState: how much there was of a key before. */
  public static Dataset<Tuple2<Long, Long>> sumsBefore(Dataset<Tuple2<Long, Long>> data) {
    return byFirst(data)
        .mapWithState(
            (Function2<
                        Tuple2<Long, Long>,
                        Option<Long>,
                        Tuple2<Tuple2<Long, Long>, Option<Long>>>
                    & Serializable)
                (in, count) -> {
                  if (count.isDefined()) {
                    Tuple2<Long, Long> out = new Tuple2<>(in._1(), count.get());
                    return new Tuple2<>(out, Option.apply(count.get() + in._2()));
                  }
                  return new Tuple2<>(new Tuple2<>(in._1(), 0L), Option.apply(in._2()));
                },
            pairs(),
            TypeInformation.of(Encoders.LONG()));
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
        byFirst(data),
        new AsyncRequest(),
        5,
        TimeUnit.SECONDS,
        100,
        pairs());
  }
}
