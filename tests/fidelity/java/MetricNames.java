import com.sun.tools.attach.VirtualMachine;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.stream.Collectors;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Prints the JMX objects of Kafka processes, with their attributes, a line for each:
 * role | object | attributes. "MetricNames client BOOTSTRAP TOPIC" runs a producer and a consumer
 * in this process; "MetricNames ROLE PID" attaches to a broker or controller. What names a request,
 * version, error, client or partition is "*", and the requests are one more line.
 */
public class MetricNames {
    private static final String[] TYPES = {
        "kafka.server:type=ReplicaManager", "kafka.log:type=LogManager",
        "kafka.controller:type=KafkaController", "kafka.controller:type=ControllerStats",
        "kafka.network:type=RequestMetrics", "kafka.producer:type=producer-metrics",
        "kafka.consumer:type=consumer-fetch-manager-metrics",
        "kafka.consumer:type=consumer-coordinator-metrics"};

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("client")) {
            useClients(arguments[1], arguments[2]);
            return;
        }
        VirtualMachine node = VirtualMachine.attach(arguments[1]);
        JMXServiceURL url = new JMXServiceURL(node.startLocalManagementAgent());
        try (var connector = JMXConnectorFactory.connect(url)) {
            print(arguments[0], connector.getMBeanServerConnection());
        }
        node.detach();
    }

    private static void useClients(String bootstrap, String topic) throws Exception {
        Map<String, Object> common = Map.of("bootstrap.servers", bootstrap, "group.id", "metrics",
            "auto.offset.reset", "earliest", "client.id", "c");
        StringSerializer out = new StringSerializer();
        StringDeserializer in = new StringDeserializer();
        try (var producer = new KafkaProducer<>(common, out, out);
                var consumer = new KafkaConsumer<>(common, in, in)) {
            producer.send(new ProducerRecord<>(topic, "value")).get();
            consumer.subscribe(List.of(topic));
            while (consumer.poll(Duration.ofMillis(200)).isEmpty());
            print("client", ManagementFactory.getPlatformMBeanServer());
        }
    }

    private static void print(String role, MBeanServerConnection server) throws Exception {
        TreeSet<String> lines = new TreeSet<>();
        TreeSet<String> requests = new TreeSet<>();
        for (ObjectName name : server.queryNames(null, null)) {
            String text = name.getCanonicalName();
            String type = name.getDomain() + ":type=" + name.getKeyProperty("type");
            if (!Arrays.asList(TYPES).contains(type))
                continue;
            if (name.getKeyProperty("request") != null)
                requests.add(name.getKeyProperty("request"));
            StringBuilder shown = new StringBuilder(type);
            new TreeSet<>(name.getKeyPropertyList().keySet()).stream()
                .filter(key -> !key.equals("type"))
                .sorted((a, b) -> a.equals("name") ? -1 : b.equals("name") ? 1 : a.compareTo(b))
                .forEach(key -> shown.append(",").append(key).append("=")
                    .append(key.equals("name") ? name.getKeyProperty(key) : "*"));
            String attributes = Arrays.stream(server.getMBeanInfo(name).getAttributes())
                .map(each -> each.getName()).sorted().collect(Collectors.joining(","));
            lines.add(role + " | " + shown + " | " + attributes);
        }
        lines.forEach(System.out::println);
        if (!requests.isEmpty())
            System.out.println(role + " | requests | " + String.join(",", requests));
    }
}
