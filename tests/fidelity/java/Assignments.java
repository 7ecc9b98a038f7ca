import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Reads cases from a file, one a line, and prints what Kafka's assignors make of them, as
 * tests/fidelity/kafka_assignors.py writes and reads them:
 * assignor;topic=racks/racks,...;member:instance:rack:generation:topics:owned,...
 */
public class Assignments {
    public static void main(String[] arguments) throws IOException {
        for (String line : Files.readAllLines(Path.of(arguments[0])))
            System.out.println(answer(line));
    }

    private static String answer(String line) {
        String[] parts = line.split(";", -1);
        Map<String, Subscription> subscriptions = new HashMap<>();
        for (String text : parts[2].split(",")) {
            String[] fields = text.split(":", -1);
            subscriptions.put(fields[0], subscription(parts[0], fields));
        }
        Map<String, Assignment> result;
        try {
            result = assignor(parts[0])
                .assign(cluster(parts[1]), new GroupSubscription(subscriptions)).groupAssignment();
        } catch (RuntimeException e) {
            return "exception " + e.getClass().getSimpleName();
        }
        List<String> members = new ArrayList<>();
        for (Map.Entry<String, Assignment> entry : new TreeMap<>(result).entrySet()) {
            List<String> partitions = new ArrayList<>();
            for (TopicPartition tp : entry.getValue().partitions())
                partitions.add(tp.topic() + tp.partition());
            members.add(entry.getKey() + "=" + String.join(" ", partitions));
        }
        return String.join(",", members);
    }

    private static ConsumerPartitionAssignor assignor(String name) {
        switch (name) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            default: return new CooperativeStickyAssignor();
        }
    }

    private static Subscription subscription(String assignor, String[] fields) {
        List<String> topics = words(fields[4]);
        List<TopicPartition> owned = new ArrayList<>();
        for (String word : words(fields[5]))
            owned.add(new TopicPartition(word.substring(0, 1), Integer.parseInt(word.substring(1))));
        int generation = Integer.parseInt(fields[3]);
        Optional<String> rack = fields[2].isEmpty() ? Optional.empty() : Optional.of(fields[2]);
        Subscription subscription;
        if (assignor.equals("sticky")) {
            StickyAssignor own = new StickyAssignor();
            if (generation >= 0)
                own.onAssignment(new Assignment(owned),
                    new ConsumerGroupMetadata("g", generation, fields[0], Optional.empty()));
            subscription = new Subscription(topics, own.subscriptionUserData(Set.copyOf(topics)),
                Collections.emptyList(), generation, rack);
        } else {
            subscription = new Subscription(topics, null, owned, generation, rack);
        }
        if (!fields[1].isEmpty())
            subscription.setGroupInstanceId(Optional.of(fields[1]));
        return subscription;
    }

    private static List<String> words(String text) {
        return text.isEmpty() ? Collections.emptyList() : Arrays.asList(text.split(" "));
    }

    private static Cluster cluster(String text) {
        Map<String, Node> nodes = new TreeMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        for (String topic : text.split(",")) {
            String[] racks = topic.substring(2).split("/", -1);
            for (int i = 0; i < racks.length; i++) {
                List<Node> replicas = new ArrayList<>();
                for (String rack : words(racks[i]))
                    replicas.add(nodes.computeIfAbsent(rack,
                        r -> new Node(nodes.size(), "host", 9092, r)));
                Node[] array = replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic.substring(0, 1), i,
                    array.length > 0 ? array[0] : null, array, array));
            }
        }
        return new Cluster("c", new LinkedHashSet<>(nodes.values()), partitions,
            Collections.emptySet(), Collections.emptySet());
    }
}
