import com.sun.tools.attach.VirtualMachine;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Prints how a broker's request times divide while its clients wait for it, a line for each API:
 * request | requests | sums of queue, local, remote, response queue and send times in ms.
 * "RequestTimes BOOTSTRAP PID TOPIC IDLE PRODUCERS PARTITIONS SECONDS": each producer sends a record
 * to each of the PARTITIONS of its own of TOPIC in one request, waits for the answer, and goes on; a
 * consumer waits for records of IDLE. The first three seconds do not count.
 */
public class RequestTimes {
    private static final String[] TIMES = {"RequestQueueTimeMs", "LocalTimeMs", "RemoteTimeMs",
        "ResponseQueueTimeMs", "ResponseSendTimeMs"};
    private static final String[] REQUESTS = {"Produce", "FetchConsumer"};
    private static volatile boolean over = false;

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        List<Thread> clients = new ArrayList<>();
        for (int number = 0; number < Integer.parseInt(arguments[4]); number++) {
            int partitions = Integer.parseInt(arguments[5]);
            int first = number * partitions;
            clients.add(new Thread(() -> produce(bootstrap, arguments[2], first, partitions)));
        }
        clients.add(new Thread(() -> fetch(bootstrap, arguments[3])));
        clients.forEach(Thread::start);
        VirtualMachine node = VirtualMachine.attach(arguments[1]);
        JMXServiceURL url = new JMXServiceURL(node.startLocalManagementAgent());
        try (var connector = JMXConnectorFactory.connect(url)) {
            MBeanServerConnection server = connector.getMBeanServerConnection();
            Thread.sleep(3000);
            Map<String, double[]> before = read(server);
            Thread.sleep(1000 * Long.parseLong(arguments[6]));
            Map<String, double[]> after = read(server);
            for (String request : REQUESTS) {
                StringBuilder line = new StringBuilder(request);
                for (int at = 0; at <= TIMES.length; at++)
                    line.append(String.format(" | %.1f", after.get(request)[at] - before.get(request)[at]));
                System.out.println(line);
            }
        }
        over = true;
        for (Thread each : clients)
            each.join();
    }

    /** Returns for each request how many there were, and the sum of each of its times. */
    private static Map<String, double[]> read(MBeanServerConnection server) throws Exception {
        Map<String, double[]> found = new TreeMap<>();
        for (String request : REQUESTS) {
            double[] sums = new double[TIMES.length + 1];
            for (int at = 0; at < TIMES.length; at++) {
                ObjectName name = new ObjectName("kafka.network:type=RequestMetrics,name="
                    + TIMES[at] + ",request=" + request);
                double count = ((Number) server.getAttribute(name, "Count")).doubleValue();
                sums[0] = count;
                sums[at + 1] = count * ((Number) server.getAttribute(name, "Mean")).doubleValue();
            }
            found.put(request, sums);
        }
        return found;
    }

    private static void produce(String bootstrap, String topic, int first, int partitions) {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "acks", "1",
            "linger.ms", "60000", "enable.idempotence", "false");
        ByteArraySerializer bytes = new ByteArraySerializer();
        try (var producer = new KafkaProducer<>(settings, bytes, bytes)) {
            while (!over) {
                for (int partition = first; partition < first + partitions; partition++)
                    producer.send(new ProducerRecord<>(topic, partition, null, new byte[1024]));
                producer.flush();
            }
        }
    }

    private static void fetch(String bootstrap, String topic) {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap,
            "auto.offset.reset", "earliest");
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            while (!over)
                consumer.poll(Duration.ofMillis(200));
        }
    }
}
