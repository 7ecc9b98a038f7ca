import java.io.BufferedReader;
import java.io.FileReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.StandbyUpdateListener;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.internals.StreamThread;

/**
 * An instance of Kafka Streams that counts the records of a topic by key: "StreamsInstance
 * PROPERTIES INPUT OUTPUT PROCESS_ID". A state directory without a process id gets PROCESS_ID, for
 * the assignment of tasks follows the order of the ids. It prints "ready" once its JVM has booted,
 * begins with the line "go" on its input, and closes with the line "close" or the input's end. What
 * happens to it goes to its standard error: "event KIND PLACE NUMBER...".
 */
public class StreamsInstance {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (FileReader file = new FileReader(arguments[0])) {
            properties.load(file);
        }
        warmUp(topology(arguments[1], arguments[2]), properties);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        input.readLine();
        Path state = Path.of(properties.getProperty(StreamsConfig.STATE_DIR_CONFIG),
            properties.getProperty(StreamsConfig.APPLICATION_ID_CONFIG));
        Files.createDirectories(state);
        Path process = state.resolve("kafka-streams-process-metadata");
        if (!Files.exists(process))
            Files.writeString(process, "{\"processId\":\"" + arguments[3] + "\"}");
        KafkaStreams streams = new Watched(topology(arguments[1], arguments[2]), properties);
        CountDownLatch ended = new CountDownLatch(1);
        streams.setStateListener((to, from) -> {
            if (to == KafkaStreams.State.NOT_RUNNING || to == KafkaStreams.State.ERROR)
                ended.countDown();
        });
        Thread closer = new Thread(() -> {
            try {
                input.readLine();
            } catch (java.io.IOException closed) {
                System.err.println(closed);
            }
            streams.close();
        });
        closer.setDaemon(true);
        closer.start();
        streams.start();
        ended.await();
    }

    private static Topology topology(String from, String to) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(from, Consumed.with(Serdes.String(), Serdes.ByteArray())).groupByKey().count()
            .toStream().to(to, Produced.with(Serdes.String(), Serdes.Long()));
        return builder.build();
    }

    /** Load what an instance needs, so that it begins as fast as the model's. */
    private static void warmUp(Topology topology, Properties properties) throws Exception {
        Properties other = new Properties();
        other.putAll(properties);
        other.put(StreamsConfig.APPLICATION_ID_CONFIG, "warm-up");
        other.put(StreamsConfig.STATE_DIR_CONFIG, Files.createTempDirectory("warm-up").toString());
        org.rocksdb.RocksDB.loadLibrary();
        new KafkaStreams(topology, other).close(Duration.ofSeconds(5));
    }

    private static synchronized void tell(String kind, String place, Object... numbers) {
        StringBuilder line = new StringBuilder("event " + kind + " " + place);
        for (Object number : numbers)
            line.append(' ').append(number);
        System.err.println(line);
    }

    /** Tells the states of its threads, and what is restored. */
    private static final class Watched extends KafkaStreams {
        Watched(Topology topology, Properties properties) throws Exception {
            super(topology, properties);
            Field field = KafkaStreams.class.getDeclaredField("streamStateListener");
            field.setAccessible(true);
            StreamThread.StateListener inner = (StreamThread.StateListener) field.get(this);
            for (StreamThread thread : threads) {
                thread.setStateListener((of, to, from) -> {
                    tell("state", to.toString());
                    inner.onChange(of, to, from);
                });
            }
            setUncaughtExceptionHandler(error -> {
                error.printStackTrace();
                tell("error", error.getClass().getSimpleName());
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            setGlobalStateRestoreListener(new Restores());
            setStandbyUpdateListener(new Standbys());
        }
    }

    private static final class Restores implements StateRestoreListener {
        @Override
        public void onRestoreStart(TopicPartition tp, String store, long start, long end) {
            tell("restore-began", tp.toString(), start, end);
        }

        @Override
        public void onBatchRestored(TopicPartition tp, String store, long last, long count) { }

        @Override
        public void onRestoreEnd(TopicPartition tp, String store, long total) {
            tell("restore-ended", tp.toString(), total);
        }

        @Override
        public void onRestoreSuspended(TopicPartition tp, String store, long total) {
            tell("restore-suspended", tp.toString(), total);
        }
    }

    private static final class Standbys implements StandbyUpdateListener {
        @Override
        public void onUpdateStart(TopicPartition tp, String store, long start) {
            tell("standby-began", tp.toString(), start);
        }

        @Override
        public void onBatchLoaded(TopicPartition tp, String store, TaskId task, long last,
                long count, long end) {
            tell("standby-read", tp.toString(), last + 1);
        }

        @Override
        public void onUpdateSuspended(TopicPartition tp, String store, long offset, long end,
                SuspendReason reason) {
            tell("standby-ended", tp.toString(), offset + 1);
        }
    }
}
