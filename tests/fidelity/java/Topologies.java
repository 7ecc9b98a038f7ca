import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.errors.StreamsException;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KGroupedTable;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.SessionWindowedKStream;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindowedKStream;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.kstream.ValueJoinerWithKey;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Run topologies on TopologyTestDriver, and print what they describe, write, log, keep and drop.
 *
 * <p>The argument is a file of cases, one JSON object a line: chains of steps with expressions as
 * nested lists, the bytes of the cache, and inputs [topic, key, value, timestamp] or [ms to wait].
 */
@SuppressWarnings({"unchecked", "rawtypes"})
public final class Topologies {
    private static final ObjectMapper JSON =
        new ObjectMapper().enable(DeserializationFeature.USE_LONG_FOR_INTS);
    private static final String APPLICATION = "app";
    private static final long START_MS = 1_000_000L;

    private static final Serde<Object> KEYS = Serdes.serdeFrom(
        (Serializer<Object>) (topic, key) -> key == null ? null : String.valueOf(key).getBytes(StandardCharsets.UTF_8),
        (Deserializer<Object>) (topic, bytes) -> bytes == null ? null : new String(bytes, StandardCharsets.UTF_8));
    private static final Serde<Object> VALUES = Serdes.serdeFrom(
        (Serializer<Object>) (topic, value) -> value == null ? null : bytes(value),
        (Deserializer<Object>) (topic, bytes) -> bytes == null ? null : parsed(bytes));

    public static final class DefaultKeys extends Serdes.WrapperSerde<Object> {
        public DefaultKeys() {
            super(KEYS.serializer(), KEYS.deserializer());
        }
    }

    public static final class DefaultValues extends Serdes.WrapperSerde<Object> {
        public DefaultValues() {
            super(VALUES.serializer(), VALUES.deserializer());
        }
    }

    public static void main(String[] arguments) throws Exception {
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            Map<String, Object> given = (Map<String, Object>) JSON.readValue(line, Object.class);
            Path directory = Files.createTempDirectory("topologies");
            System.out.println("case " + given.get("name"));
            try {
                new Topologies(given, directory).run();
            } catch (Exception failed) {
                boolean streams = failed instanceof StreamsException; // or one of its subclasses
                System.out.println("  fails: " + (streams ? "StreamsException" : failed.toString()));
            } finally {
                try (Stream<Path> files = Files.walk(directory)) {
                    files.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
                }
            }
        }
    }

    private final Map<String, Object> given;
    private final Properties config = new Properties();
    private final StreamsBuilder builder = new StreamsBuilder();
    private final Map<String, Object> named = new HashMap<>();

    private Topologies(Map<String, Object> given, Path directory) {
        this.given = given;
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, APPLICATION);
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "nowhere:9092");
        config.put(StreamsConfig.STATE_DIR_CONFIG, directory.toString());
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, DefaultKeys.class);
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, DefaultValues.class);
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, given.get("cache"));
        // The driver would look for final results at every record.
        config.put("__emit.interval.ms.kstreams.windowed.aggregation__", 1000L);
        config.put("__emit.interval.ms.kstreams.outer.join.spurious.results.fix__", 1000L);
    }

    private void run() throws Exception {
        for (Object chain : (List<Object>) given.get("chains")) {
            build((Map<String, Object>) chain);
        }
        Topology topology = builder.build(config);
        if (given.get("describe").equals(true)) {
            System.out.print(topology.describe().toString().indent(2).replaceAll("(?m) +$", ""));
        }
        try (TopologyTestDriver driver =
                new TopologyTestDriver(topology, config, Instant.ofEpochMilli(START_MS))) {
            TreeSet<String> topics = new TreeSet<>();
            for (String name : driver.getAllStateStores().keySet()) {
                topics.add(APPLICATION + "-" + name + "-changelog");
            }
            TreeSet<String> outputs = new TreeSet<>((List<String>) given.get("outputs"));
            for (Object input : (List<Object>) given.get("inputs")) {
                pipe(driver, (List<Object>) input);
                for (String topic : outputs) {
                    print(driver, topic, false);
                }
                for (String topic : topics) {
                    print(driver, topic, true);
                }
            }
            printDropped(driver);
            for (String name : new TreeSet<>(driver.getAllStateStores().keySet())) {
                printStore(name, driver.getAllStateStores().get(name));
            }
        }
    }

    private void pipe(TopologyTestDriver driver, List<Object> input) {
        if (input.size() == 1) {
            System.out.println("  + " + input.get(0));
            driver.advanceWallClockTime(Duration.ofMillis((Long) input.get(0)));
            return;
        }
        System.out.println("  < " + input.get(0) + " " + text(input.subList(1, 4)));
        driver.createInputTopic((String) input.get(0), KEYS.serializer(), VALUES.serializer())
            .pipeInput(new TestRecord<>(input.get(1), input.get(2), Instant.ofEpochMilli((Long) input.get(3))));
    }

    private void print(TopologyTestDriver driver, String topic, boolean changelog) {
        TestOutputTopic<byte[], byte[]> from =
            driver.createOutputTopic(topic, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        while (!from.isEmpty()) {
            TestRecord<byte[], byte[]> record = from.readRecord();
            Long time = record.timestamp();
            if (changelog) {
                // suppress() gives no time: the producer's clock is the machine's.
                String shown = time == null ? "" : " " + time;
                String is = record.value() == null ? "null" : "set";
                System.out.println("    log " + topic + " " + HexFormat.of().formatHex(record.key()) + " " + is + shown);
            } else {
                Object key = KEYS.deserializer().deserialize(topic, record.key());
                Object value = VALUES.deserializer().deserialize(topic, record.value());
                System.out.println("    > " + topic + " " + text(list(key, value, time)));
            }
        }
    }

    private static void printDropped(TopologyTestDriver driver) {
        double dropped = 0;
        for (Map.Entry<MetricName, ? extends Metric> each : driver.metrics().entrySet()) {
            if (each.getKey().name().equals("dropped-records-total")) {
                dropped += (Double) each.getValue().metricValue();
            }
        }
        System.out.println("  dropped " + (long) dropped);
    }

    private static void printStore(String name, StateStore store) {
        if (store instanceof WindowStore) {
            try (KeyValueIterator<Windowed<Object>, Object> all = ((WindowStore<Object, Object>) store).all()) {
                all.forEachRemaining(each -> printEntry(name, shown(each.key), each.value));
            }
        } else if (store instanceof SessionStore) {
            try (KeyValueIterator<Windowed<Object>, Object> all =
                    ((SessionStore<Object, Object>) store).fetch(null, null)) {
                all.forEachRemaining(each -> printEntry(name, shown(each.key), each.value));
            }
        } else if (store instanceof KeyValueStore) {
            try (KeyValueIterator<Object, Object> all = ((KeyValueStore<Object, Object>) store).all()) {
                all.forEachRemaining(each -> printEntry(name, each.key, each.value));
            }
        }
    }

    private static void printEntry(String name, Object key, Object value) {
        if (value instanceof ValueAndTimestamp) {
            ValueAndTimestamp<Object> entry = (ValueAndTimestamp<Object>) value;
            System.out.println("  in " + name + " " + text(list(key, entry.value(), entry.timestamp())));
        } else if (value instanceof Long || value instanceof String || value instanceof List || value instanceof Map) {
            System.out.println("  in " + name + " " + text(list(key, value)));
        } else {
            System.out.println("  in " + name); // of an outer join: its own kinds of keys and values
        }
    }

    // The chains.

    private void build(Map<String, Object> chain) {
        String kind = (String) chain.get("kind");
        Map<String, Object> options = (Map<String, Object>) chain.get("options");
        Object flow;
        switch (kind) {
            case "stream":
                flow = builder.stream((List<String>) chain.get("source"), Consumed.with(KEYS, VALUES));
                break;
            case "table":
                Materialized kept = materialized(options);
                flow = kept == null
                    ? builder.table((String) chain.get("source"), Consumed.with(KEYS, VALUES))
                    : builder.table((String) chain.get("source"), Consumed.with(KEYS, VALUES), kept);
                break;
            case "store":
                builder.addStateStore(Stores.keyValueStoreBuilder(
                    Stores.persistentKeyValueStore((String) chain.get("source")), KEYS, VALUES));
                return;
            default:
                flow = named.get(chain.get("source"));
        }
        for (Object step : (List<Object>) chain.get("steps")) {
            flow = apply(flow, (Map<String, Object>) step);
        }
        if (chain.get("named") != null) {
            named.put((String) chain.get("named"), flow);
        }
    }

    private Object apply(Object flow, Map<String, Object> step) {
        String name = (String) step.get("name");
        Object argument = step.get("argument");
        Map<String, Object> options = (Map<String, Object>) step.get("options");
        if (flow instanceof KStream) {
            return applyStream((KStream<Object, Object>) flow, name, argument, options);
        } else if (flow instanceof KTable) {
            return applyTable((KTable<Object, Object>) flow, name, argument, options);
        } else if (flow instanceof KGroupedTable) {
            return applyGroupedTable((KGroupedTable<Object, Object>) flow, name, argument, options);
        } else if (name.equals("windowed-by")) {
            return windowed((KGroupedStream<Object, Object>) flow, argument, options);
        } else if (name.equals("emit")) {
            EmitStrategy strategy = argument.equals("on-window-close")
                ? EmitStrategy.onWindowClose() : EmitStrategy.onWindowUpdate();
            return flow instanceof TimeWindowedKStream
                ? ((TimeWindowedKStream<?, ?>) flow).emitStrategy(strategy)
                : ((SessionWindowedKStream<?, ?>) flow).emitStrategy(strategy);
        }
        return aggregate(flow, name, argument, options);
    }

    private Object applyStream(
            KStream<Object, Object> flow, String name, Object argument, Map<String, Object> options) {
        Object value = options.get("value");
        switch (name) {
            case "filter": return flow.filter((k, v) -> truth(eval(argument, "key", k, "value", v)));
            case "filter-not": return flow.filterNot((k, v) -> truth(eval(argument, "key", k, "value", v)));
            case "map": return flow.map((k, v) -> pair(eval(argument, "key", k, "value", v)));
            case "map-values": return flow.mapValues((k, v) -> eval(argument, "key", k, "value", v));
            case "select-key": return flow.selectKey((k, v) -> eval(argument, "key", k, "value", v));
            case "flat-map": return flow.flatMap((k, v) -> pairs(eval(argument, "key", k, "value", v)));
            case "flat-map-values":
                return flow.flatMapValues((k, v) -> (List<Object>) eval(argument, "key", k, "value", v));
            case "merge": return flow.merge((KStream<Object, Object>) named.get(argument));
            case "repartition":
                Repartitioned<Object, Object> how = Repartitioned.with(KEYS, VALUES);
                return flow.repartition(argument.equals(true) ? how : how.withName((String) argument));
            case "to-table":
                Materialized table = materialized(options);
                return table == null ? flow.toTable(Materialized.with(KEYS, VALUES)) : flow.toTable(table);
            case "to":
                flow.to((String) argument, Produced.with(printing(), VALUES));
                return null;
            case "group-by-key": return flow.groupByKey(Grouped.with((String) options.get("name"), KEYS, VALUES));
            case "group-by":
                return flow.groupBy((k, v) -> eval(argument, "key", k, "value", v),
                    Grouped.with((String) options.get("name"), KEYS, VALUES));
            case "punctuate": return flow.process(() -> new Punctuate(argument, options));
            case "join": case "left-join": case "outer-join": {
                ValueJoinerWithKey<Object, Object, Object, Object> joiner =
                    (k, left, right) -> eval(value, "key", k, "left", left, "right", right);
                if (named.get(argument) instanceof KTable) {
                    KTable<Object, Object> other = (KTable<Object, Object>) named.get(argument);
                    Joined<Object, Object, Object> joined = Joined.with(KEYS, VALUES, VALUES);
                    return name.equals("join") ? flow.join(other, joiner, joined) : flow.leftJoin(other, joiner, joined);
                }
                KStream<Object, Object> other = (KStream<Object, Object>) named.get(argument);
                StreamJoined<Object, Object, Object> joined = StreamJoined.with(KEYS, VALUES, VALUES);
                JoinWindows windows = joinWindows(options);
                return name.equals("join") ? flow.join(other, joiner, windows, joined)
                    : name.equals("left-join") ? flow.leftJoin(other, joiner, windows, joined)
                    : flow.outerJoin(other, joiner, windows, joined);
            }
            default: throw new IllegalArgumentException(name);
        }
    }

    private Object applyTable(
            KTable<Object, Object> flow, String name, Object argument, Map<String, Object> options) {
        Materialized kept = materialized(options);
        switch (name) {
            case "filter":
                return kept == null ? flow.filter((k, v) -> truth(eval(argument, "key", k, "value", v)))
                    : flow.filter((k, v) -> truth(eval(argument, "key", k, "value", v)), kept);
            case "filter-not":
                return kept == null ? flow.filterNot((k, v) -> truth(eval(argument, "key", k, "value", v)))
                    : flow.filterNot((k, v) -> truth(eval(argument, "key", k, "value", v)), kept);
            case "map-values":
                return kept == null ? flow.mapValues((k, v) -> eval(argument, "key", k, "value", v))
                    : flow.mapValues((k, v) -> eval(argument, "key", k, "value", v), kept);
            case "to-stream": return flow.toStream();
            case "group-by":
                return flow.groupBy((k, v) -> pair(eval(argument, "key", k, "value", v)),
                    Grouped.with((String) options.get("name"), KEYS, VALUES));
            case "suppress": return flow.suppress(suppressed(argument, options));
            case "join": case "left-join": case "outer-join": {
                KTable<Object, Object> other = (KTable<Object, Object>) named.get(argument);
                Object value = options.get("value");
                ValueJoiner<Object, Object, Object> joiner =
                    (left, right) -> eval(value, "key", null, "left", left, "right", right);
                switch (name) {
                    case "join": return kept == null ? flow.join(other, joiner) : flow.join(other, joiner, kept);
                    case "left-join":
                        return kept == null ? flow.leftJoin(other, joiner) : flow.leftJoin(other, joiner, kept);
                    default:
                        return kept == null ? flow.outerJoin(other, joiner) : flow.outerJoin(other, joiner, kept);
                }
            }
            default: throw new IllegalArgumentException(name);
        }
    }

    private Object applyGroupedTable(
            KGroupedTable<Object, Object> flow, String name, Object argument, Map<String, Object> options) {
        Materialized kept = materialized(options);
        Materialized plain = kept == null ? Materialized.with(KEYS, VALUES) : kept;
        Object subtract = options.get("subtract");
        switch (name) {
            case "count": return kept == null ? flow.count() : flow.count(kept);
            case "reduce":
                return flow.reduce((a, v) -> eval(argument, "aggregate", a, "value", v),
                    (a, v) -> eval(subtract, "aggregate", a, "value", v), plain);
            default:
                return flow.aggregate(() -> options.get("initial"),
                    (k, v, a) -> eval(argument, "key", k, "value", v, "aggregate", a),
                    (k, v, a) -> eval(subtract, "key", k, "value", v, "aggregate", a), plain);
        }
    }

    private Object aggregate(Object flow, String name, Object argument, Map<String, Object> options) {
        Materialized kept = materialized(options);
        Materialized plain = kept == null ? Materialized.with(KEYS, VALUES) : kept;
        if (flow instanceof KGroupedStream) {
            KGroupedStream<Object, Object> grouped = (KGroupedStream<Object, Object>) flow;
            switch (name) {
                case "count": return kept == null ? grouped.count() : grouped.count(kept);
                case "reduce": return grouped.reduce((a, v) -> eval(argument, "aggregate", a, "value", v), plain);
                default:
                    return grouped.aggregate(() -> options.get("initial"),
                        (k, v, a) -> eval(argument, "key", k, "value", v, "aggregate", a), plain);
            }
        } else if (flow instanceof TimeWindowedKStream) {
            TimeWindowedKStream<Object, Object> windowed = (TimeWindowedKStream<Object, Object>) flow;
            switch (name) {
                case "count": return kept == null ? windowed.count() : windowed.count(kept);
                case "reduce": return windowed.reduce((a, v) -> eval(argument, "aggregate", a, "value", v), plain);
                default:
                    return windowed.aggregate(() -> options.get("initial"),
                        (k, v, a) -> eval(argument, "key", k, "value", v, "aggregate", a), plain);
            }
        }
        SessionWindowedKStream<Object, Object> sessions = (SessionWindowedKStream<Object, Object>) flow;
        Object merge = options.get("merge");
        switch (name) {
            case "count": return kept == null ? sessions.count() : sessions.count(kept);
            case "reduce": return sessions.reduce((a, v) -> eval(argument, "aggregate", a, "value", v), plain);
            default:
                return sessions.aggregate(() -> options.get("initial"),
                    (k, v, a) -> eval(argument, "key", k, "value", v, "aggregate", a),
                    (k, one, other) -> eval(merge, "key", k, "one", one, "other", other), plain);
        }
    }

    private static Object windowed(KGroupedStream<Object, Object> flow, Object kind, Map<String, Object> options) {
        Duration grace = Duration.ofMillis((Long) options.getOrDefault("grace", 0L));
        if (kind.equals("session")) {
            return flow.windowedBy(
                SessionWindows.ofInactivityGapAndGrace(Duration.ofMillis((Long) options.get("gap")), grace));
        }
        TimeWindows windows = TimeWindows.ofSizeAndGrace(Duration.ofMillis((Long) options.get("size")), grace);
        return flow.windowedBy(kind.equals("hopping")
            ? windows.advanceBy(Duration.ofMillis((Long) options.get("advance"))) : windows);
    }

    private static JoinWindows joinWindows(Map<String, Object> options) {
        long within = (Long) options.getOrDefault("within", 0L);
        return JoinWindows.ofTimeDifferenceAndGrace(
                Duration.ofMillis(within), Duration.ofMillis((Long) options.getOrDefault("grace", 0L)))
            .before(Duration.ofMillis((Long) options.getOrDefault("before", within)))
            .after(Duration.ofMillis((Long) options.getOrDefault("after", within)));
    }

    private static Suppressed suppressed(Object kind, Map<String, Object> options) {
        Long records = (Long) options.get("max-records");
        if (kind.equals("until-window-closes")) {
            Suppressed.StrictBufferConfig buffer = records == null
                ? Suppressed.BufferConfig.unbounded()
                : Suppressed.BufferConfig.maxRecords(records).shutDownWhenFull();
            return Suppressed.untilWindowCloses(buffer);
        }
        boolean early = "emit-early".equals(options.get("when-full"));
        Suppressed.BufferConfig buffer = records == null ? Suppressed.BufferConfig.unbounded()
            : early ? Suppressed.BufferConfig.maxRecords(records).emitEarlyWhenFull()
            : Suppressed.BufferConfig.maxRecords(records).shutDownWhenFull();
        return Suppressed.untilTimeLimit(Duration.ofMillis((Long) options.get("limit")), buffer);
    }

    private static Materialized materialized(Map<String, Object> options) {
        if (Stream.of("store", "caching", "logging", "retention").noneMatch(options::containsKey)) {
            return null;
        }
        Materialized made = options.containsKey("store")
            ? Materialized.as((String) options.get("store")).withKeySerde((Serde) KEYS).withValueSerde((Serde) VALUES)
            : Materialized.with(KEYS, VALUES);
        if (options.getOrDefault("caching", true).equals(false)) {
            made = made.withCachingDisabled();
        }
        if (options.getOrDefault("logging", true).equals(false)) {
            made = made.withLoggingDisabled();
        }
        if (options.containsKey("retention")) {
            made = made.withRetention(Duration.ofMillis((Long) options.get("retention")));
        }
        return made;
    }

    private static final class Punctuate implements Processor<Object, Object, Object, Object> {
        private final PunctuationType kind;
        private final Map<String, Object> options;
        private ProcessorContext<Object, Object> context;

        private Punctuate(Object kind, Map<String, Object> options) {
            this.kind = kind.equals("stream-time") ? PunctuationType.STREAM_TIME : PunctuationType.WALL_CLOCK_TIME;
            this.options = options;
        }

        @Override
        public void init(ProcessorContext<Object, Object> context) {
            this.context = context;
            context.schedule(Duration.ofMillis((Long) options.get("every")), kind, time -> {
                Object key = options.containsKey("key") ? eval(options.get("key"), "time", time) : null;
                context.forward(new Record<>(key, eval(options.get("value"), "time", time), time));
            });
        }

        @Override
        public void process(Record<Object, Object> record) {
            context.forward(record);
        }
    }

    // The expressions.

    private static Object eval(Object tree, Object... names) {
        List<Object> node = (List<Object>) tree;
        String operator = (String) node.get(0);
        switch (operator) {
            case "constant": return node.get(1);
            case "name":
                for (int i = 0; i < names.length; i += 2) {
                    if (names[i].equals(node.get(1))) {
                        return names[i + 1];
                    }
                }
                throw new IllegalArgumentException(node.toString());
            case "if": return eval(node.get(truth(eval(node.get(1), names)) ? 2 : 3), names);
            case "and": case "or": {
                Object last = null;
                for (Object each : node.subList(1, node.size())) {
                    last = eval(each, names);
                    if (truth(last) == operator.equals("or")) {
                        return last;
                    }
                }
                return last;
            }
            default:
        }
        List<Object> values = new ArrayList<>();
        for (Object each : node.subList(1, node.size())) {
            values.add(eval(each, names));
        }
        return applied(operator, values);
    }

    private static Object applied(String operator, List<Object> values) {
        Object one = values.isEmpty() ? null : values.get(0);
        Object two = values.size() < 2 ? null : values.get(1);
        switch (operator) {
            case "list": return values;
            case "dict": {
                Map<Object, Object> made = new LinkedHashMap<>();
                for (int i = 0; i < values.size(); i += 2) {
                    made.put(values.get(i), values.get(i + 1));
                }
                return made;
            }
            case "get": return one instanceof Map ? ((Map<Object, Object>) one).get(two)
                : ((List<Object>) one).get(((Long) two).intValue());
            case "+":
                if (one instanceof String) {
                    return (String) one + (String) two;
                } else if (one instanceof List) {
                    List<Object> both = new ArrayList<>((List<Object>) one);
                    both.addAll((List<Object>) two);
                    return both;
                }
                return (Long) one + (Long) two;
            case "-": return (Long) one - (Long) two;
            case "*": return (Long) one * (Long) two;
            case "//": return Math.floorDiv((Long) one, (Long) two);
            case "%": return Math.floorMod((Long) one, (Long) two);
            case "==": case "is": return Objects.equals(one, two);
            case "!=": case "is not": return !Objects.equals(one, two);
            case "<": return ((Comparable) one).compareTo(two) < 0;
            case "<=": return ((Comparable) one).compareTo(two) <= 0;
            case ">": return ((Comparable) one).compareTo(two) > 0;
            case ">=": return ((Comparable) one).compareTo(two) >= 0;
            case "not": return !truth(one);
            case "neg": return -(Long) one;
            case "str": return String.valueOf(one);
            case "max": return Math.max((Long) one, (Long) two);
            case "min": return Math.min((Long) one, (Long) two);
            case "len": return (long) (one instanceof String ? ((String) one).length() : ((List<?>) one).size());
            default: throw new IllegalArgumentException(operator);
        }
    }

    private static boolean truth(Object value) {
        return value instanceof Boolean ? (Boolean) value
            : value instanceof Long ? (Long) value != 0
            : value instanceof String ? !((String) value).isEmpty()
            : value instanceof List ? !((List<?>) value).isEmpty() : value != null;
    }

    private static KeyValue<Object, Object> pair(Object list) {
        return KeyValue.pair(((List<Object>) list).get(0), ((List<Object>) list).get(1));
    }

    private static List<KeyValue<Object, Object>> pairs(Object list) {
        List<KeyValue<Object, Object>> made = new ArrayList<>();
        for (Object each : (List<Object>) list) {
            made.add(pair(each));
        }
        return made;
    }

    // Bytes and texts.

    private static Serde<Object> printing() {
        return Serdes.serdeFrom(
            (topic, key) -> key == null ? null : String.valueOf(shown(key)).getBytes(StandardCharsets.UTF_8),
            KEYS.deserializer());
    }

    private static Object shown(Object key) {
        if (key instanceof Windowed) {
            Windowed<Object> windowed = (Windowed<Object>) key;
            return "[" + windowed.key() + "@" + windowed.window().start() + "/" + windowed.window().end() + "]";
        }
        return key;
    }

    private static List<Object> list(Object... values) {
        return new ArrayList<>(java.util.Arrays.asList(values));
    }

    private static byte[] bytes(Object value) {
        return text(value).getBytes(StandardCharsets.UTF_8);
    }

    private static Object parsed(byte[] bytes) {
        try {
            return JSON.readValue(bytes, Object.class);
        } catch (java.io.IOException wrong) {
            throw new IllegalArgumentException(wrong);
        }
    }

    private static String text(Object value) {
        try {
            return JSON.writeValueAsString(value);
        } catch (com.fasterxml.jackson.core.JsonProcessingException wrong) {
            throw new IllegalArgumentException(wrong);
        }
    }
}
