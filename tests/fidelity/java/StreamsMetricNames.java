import java.lang.management.ManagementFactory;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.util.Arrays;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.processor.internals.metrics.StreamsMetricsImpl;
import org.apache.kafka.streams.processor.internals.metrics.TaskMetrics;

/**
 * Prints the JMX objects of an instance of Kafka Streams and of a task, with their attributes, a
 * line for each: streams | object | attributes. The instance is not started: its threads, and the
 * sensors of a task, register what they measure when they are made.
 */
public class StreamsMetricNames {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put("application.id", "metrics");
        properties.put("bootstrap.servers", "127.0.0.1:1");
        properties.put("state.dir", Files.createTempDirectory("metrics").toString());
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream("in").groupByKey().count();
        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        Field field = KafkaStreams.class.getDeclaredField("streamsMetrics");
        field.setAccessible(true);
        StreamsMetricsImpl metrics = (StreamsMetricsImpl) field.get(streams);
        TaskMetrics.droppedRecordsSensor("thread", "0_0", metrics);
        TaskMetrics.restoreSensor("thread", "0_0", metrics);
        TaskMetrics.updateSensor("thread", "0_0", metrics);
        print(ManagementFactory.getPlatformMBeanServer());
        System.exit(0);
    }

    private static void print(MBeanServer server) throws Exception {
        TreeMap<String, TreeSet<String>> found = new TreeMap<>();
        for (ObjectName name : server.queryNames(new ObjectName("kafka.streams:*"), null)) {
            String keys = new TreeSet<>(name.getKeyPropertyList().keySet()).stream()
                .filter(key -> !key.equals("type")).map(key -> "," + key + "=*")
                .collect(Collectors.joining());
            String object = "kafka.streams:type=" + name.getKeyProperty("type") + keys;
            Arrays.stream(server.getMBeanInfo(name).getAttributes())
                .forEach(each -> found.computeIfAbsent(object, any -> new TreeSet<>())
                    .add(each.getName()));
        }
        found.forEach((object, attributes) ->
            System.out.println("streams | " + object + " | " + String.join(",", attributes)));
    }
}
