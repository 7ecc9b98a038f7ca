import java.io.BufferedReader;
import java.io.FileReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A member of a group, as a scenario's consumer workload describes it: "GroupMember PROPERTIES
 * COMMIT STUCK_AT STUCK_FOR TOPIC...", or "pattern:EXPRESSION" in place of the topics. The times are
 * in ms from its start, -1 for never. It prints "ready" once its JVM has booted, begins with the
 * line "go" on its input, and closes its consumer with the line "close" or the input's end. Whoever
 * kills or pauses it sends a signal.
 */
public class GroupMember {
    private static final String PATTERN = "pattern:";

    private static volatile boolean closing;

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (FileReader file = new FileReader(arguments[0])) {
            properties.load(file);
        }
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties, bytes, bytes);
        CountDownLatch go = new CountDownLatch(1);
        Thread reader = new Thread(() -> obey(consumer, go));
        reader.setDaemon(true);
        reader.start();
        System.out.println("ready");
        go.await();
        try {
            run(consumer, arguments[1], Long.parseLong(arguments[2]),
                Long.parseLong(arguments[3]), List.of(arguments).subList(4, arguments.length));
        } catch (WakeupException closes) {
            assert closing;
        }
        consumer.close();
    }

    private static void obey(KafkaConsumer<?, ?> consumer, CountDownLatch go) {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        try {
            input.readLine();
            go.countDown();
            input.readLine();
        } catch (java.io.IOException ended) {
            System.err.println(ended);
        }
        closing = true;
        consumer.wakeup();
    }

    private static void run(KafkaConsumer<?, ?> consumer, String commit, long stuckAt,
            long stuckFor, List<String> topics) throws Exception {
        long began = System.currentTimeMillis();
        boolean commits = commit.equals("sync") || commit.equals("async");
        ConsumerRebalanceListener listener = new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
                if (commits)
                    commit(consumer);
            }

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> assigned) { }
        };
        if (topics.get(0).startsWith(PATTERN))
            consumer.subscribe(Pattern.compile(topics.get(0).substring(PATTERN.length())), listener);
        else
            consumer.subscribe(topics, listener);
        while (!closing) {
            if (consumer.poll(Duration.ofSeconds(1)).isEmpty())
                continue;
            if (stuckAt >= 0 && System.currentTimeMillis() >= began + stuckAt) {
                stuckAt = -1;
                Thread.sleep(stuckFor);
            }
            if (commit.equals("sync"))
                commit(consumer);
            else if (commit.equals("async"))
                consumer.commitAsync();
        }
    }

    private static void commit(KafkaConsumer<?, ?> consumer) {
        try {
            consumer.commitSync();
        } catch (WakeupException closes) {
            throw closes;
        } catch (RuntimeException refused) {  // after a rebalance: others process it again
            System.err.println(refused);
        }
    }
}
