import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeAssignor;
import org.apache.kafka.connect.runtime.distributed.WorkerCoordinator.ConnectorsAndTasks;
import org.apache.kafka.connect.storage.ClusterConfigState;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * Print what Connect's assignor assigns in drawn groups of workers: "WorkerAssignments FILE". Each
 * line of the file is a group, as kafka_worker_assignor.py writes it; each line that is printed has
 * a group's rounds: "DELAY WORKER:+STARTED-STOPPED ...", where a task is CONNECTOR.NUMBER, and what
 * stops is sorted.
 *
 * <p>Kafka keeps members in a HashMap by their ids. Here they stand in the order of their names.
 */
public final class WorkerAssignments {
    private final IncrementalCooperativeAssignor assignor;
    private final Method assign;
    private final Field delay;
    private final Map<String, Worker> workers = new LinkedHashMap<>();
    private long nowMs;

    /** What a worker runs, and what it ran before the last assignment. */
    private static final class Worker {
        private Set<String> connectors = new LinkedHashSet<>();
        private Set<ConnectorTaskId> tasks = new LinkedHashSet<>();
        private Set<String> connectorsBefore = connectors;
        private Set<ConnectorTaskId> tasksBefore = tasks;
    }

    private WorkerAssignments(int maxDelayMs) throws Exception {
        Time time = (Time) Proxy.newProxyInstance(Time.class.getClassLoader(), new Class<?>[] {Time.class},
            (proxy, method, arguments) -> nowMs);
        Class<?> type = IncrementalCooperativeAssignor.class;
        assignor = new IncrementalCooperativeAssignor(new LogContext(), time, maxDelayMs);
        assign = type.getDeclaredMethod("performTaskAssignment", ClusterConfigState.class, int.class,
            int.class, Map.class);
        assign.setAccessible(true);
        delay = type.getDeclaredField("delay");
        delay.setAccessible(true);
    }

    public static void main(String[] arguments) throws Exception {
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] parts = line.split("\\|");
            WorkerAssignments group = new WorkerAssignments(Integer.parseInt(parts[0]));
            List<String> rounds = new ArrayList<>();
            for (int number = 1; number < parts.length; number++)
                rounds.add(group.round(number, parts[number].split(" ")));
            System.out.println(String.join("|", rounds));
        }
    }

    /** Play a round: when it is, generations that the leader missed, what is configured, who comes. */
    private String round(int generation, String[] words) throws Exception {
        nowMs = Long.parseLong(words[0]);
        Map<String, Integer> counts = new LinkedHashMap<>();
        for (String word : words[2].split(","))
            counts.put(word.split(":")[0], Integer.parseInt(word.split(":")[1]));
        Map<String, ConnectorsAndTasks> reported = new LinkedHashMap<>();
        Map<String, Worker> before = new LinkedHashMap<>(workers);
        workers.clear();
        for (String word : words[3].split(",")) {
            String name = word.split(":")[0];
            Worker worker = come(before.getOrDefault(name, new Worker()), word.split(":")[1], counts);
            workers.put(name, worker);
            reported.put(name, new ConnectorsAndTasks.Builder().with(worker.connectors, worker.tasks).build());
        }
        Object found = assign.invoke(assignor, configured(counts), generation - 1 - Integer.parseInt(words[1]),
            generation, reported);
        StringBuilder told = new StringBuilder().append(delay.getInt(assignor));
        for (Map.Entry<String, Worker> each : workers.entrySet())
            told.append(' ').append(each.getKey()).append(':').append(take(each.getKey(), each.getValue(), found));
        return told.toString();
    }

    private static Worker come(Worker worker, String how, Map<String, Integer> counts) {
        if (how.equals("fresh"))
            return new Worker();
        if (how.equals("missed")) {
            worker.connectors = worker.connectorsBefore;
            worker.tasks = worker.tasksBefore;
        } else if (how.startsWith("claims")) {
            String connector = List.copyOf(counts.keySet()).get(Integer.parseInt(how.substring(6)) % counts.size());
            worker.connectors = new LinkedHashSet<>(worker.connectors);
            worker.connectors.add(connector);
            worker.tasks = new LinkedHashSet<>(worker.tasks);
            worker.tasks.add(new ConnectorTaskId(connector, 0));
        }
        return worker;
    }

    private static ClusterConfigState configured(Map<String, Integer> counts) {
        Map<String, Map<String, String>> configs = new LinkedHashMap<>();
        counts.keySet().forEach(each -> configs.put(each, Map.of()));
        return new ClusterConfigState(1, null, counts, configs, Map.of(), Map.of(), Map.of(), Map.of(), Map.of(),
            Set.of(), Set.of());
    }

    /** Let a worker take its assignment (WorkerCoordinator.onJoinComplete); return it as text. */
    private static String take(String name, Worker worker, Object found) throws Exception {
        Collection<String> connectors = get(found, "newlyAssignedConnectors", name);
        Collection<ConnectorTaskId> tasks = get(found, "newlyAssignedTasks", name);
        Collection<String> stopped = get(found, "newlyRevokedConnectors", name);
        Collection<ConnectorTaskId> tasksStopped = get(found, "newlyRevokedTasks", name);
        worker.connectorsBefore = worker.connectors;
        worker.tasksBefore = worker.tasks;
        worker.connectors = merged(connectors, worker.connectors, stopped);
        worker.tasks = merged(tasks, worker.tasks, tasksStopped);
        return "+" + text(connectors, tasks) + "-" + text(new TreeSet<>(stopped), new TreeSet<>(tasksStopped));
    }

    @SuppressWarnings("unchecked")
    private static <T> Collection<T> get(Object found, String name, String worker) throws Exception {
        Method method = found.getClass().getMethod(name, String.class);
        method.setAccessible(true);
        return (Collection<T>) method.invoke(found, worker);
    }

    private static <T> Set<T> merged(Collection<T> started, Set<T> running, Collection<T> stopped) {
        Set<T> result = new LinkedHashSet<>(started);
        running.stream().filter(each -> !stopped.contains(each)).forEach(result::add);
        return result;
    }

    private static String text(Collection<String> connectors, Collection<ConnectorTaskId> tasks) {
        Stream<String> numbers = tasks.stream().map(each -> each.connector() + "." + each.task());
        return Stream.concat(connectors.stream(), numbers).collect(Collectors.joining(","));
    }
}
