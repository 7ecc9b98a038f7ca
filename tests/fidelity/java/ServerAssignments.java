import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Assigns with the coordinator's own assignors: prints a line for each line of the file that the
 * argument names. A question is ASSIGNOR|TYPE|topic partitions,…|member;…, and a member is
 * id/instance/topics/partitions, with lists in spaces and "-" for nothing. The answer has
 * member=partitions for each member. Members and topics are rising: the maps keep their order.
 */
public class ServerAssignments {
    public static void main(String[] arguments) throws Exception {
        for (String line : Files.readAllLines(Path.of(arguments[0])))
            System.out.println(answer(line.split("\\|")));
    }

    private static String answer(String[] question) {
        ConsumerGroupPartitionAssignor assignor =
            question[0].equals("range") ? new RangeAssignor() : new UniformAssignor();
        Map<Uuid, Integer> sizes = new LinkedHashMap<>();
        Map<Uuid, String> names = new HashMap<>();
        for (String topic : question[2].split(",")) {
            String[] parts = topic.split(" ");
            sizes.put(id(parts[0]), Integer.parseInt(parts[1]));
            names.put(id(parts[0]), parts[0]);
        }
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> inverted = new HashMap<>();
        for (String member : question[3].split(";")) {
            String[] parts = member.split("/");
            Set<Uuid> subscribed = new TreeSet<>();
            for (String topic : list(parts[2]))
                subscribed.add(id(topic));
            Map<Uuid, Set<Integer>> owned = new TreeMap<>();
            for (String partition : list(parts[3])) {
                String[] place = partition.split("-");
                int number = Integer.parseInt(place[1]);
                owned.computeIfAbsent(id(place[0]), __ -> new TreeSet<>()).add(number);
                inverted.computeIfAbsent(id(place[0]), __ -> new HashMap<>()).put(number, parts[0]);
            }
            members.put(parts[0], new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(),
                parts[1].equals("-") ? Optional.empty() : Optional.of(parts[1]),
                subscribed,
                new Assignment(owned)));
        }
        Map<String, MemberAssignment> result = assignor.assign(
            new GroupSpecImpl(members, SubscriptionType.valueOf(question[1]), inverted),
            new Topics(sizes)).members();
        StringBuilder text = new StringBuilder();
        for (String member : members.keySet()) {
            text.append(text.length() == 0 ? "" : ";").append(member).append("=");
            Map<Uuid, Set<Integer>> given =
                result.containsKey(member) ? result.get(member).partitions() : Map.of();
            String separator = "";
            for (Map.Entry<Uuid, Set<Integer>> topic : new TreeMap<>(given).entrySet())
                for (int number : new TreeSet<>(topic.getValue())) {
                    text.append(separator).append(names.get(topic.getKey())).append("-").append(number);
                    separator = " ";
                }
        }
        return text.toString();
    }

    /** Topics without racks. Kafka's own describer is another class in each version. */
    private record Topics(Map<Uuid, Integer> sizes) implements SubscribedTopicDescriber {
        public int numPartitions(Uuid topic) {
            return sizes.getOrDefault(topic, -1);
        }

        public Set<String> racksForPartition(Uuid topic, int partition) {
            return Set.of();
        }
    }

    /** Topic t3 has the id 0…05, so that hash sets of ids are rising, too. */
    private static Uuid id(String topic) {
        return new Uuid(0, 2 + Integer.parseInt(topic.substring(1)));
    }

    private static String[] list(String text) {
        return text.equals("-") ? new String[0] : text.split(" ");
    }
}
