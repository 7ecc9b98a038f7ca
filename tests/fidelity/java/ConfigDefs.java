import java.lang.reflect.AccessibleObject;
import java.lang.reflect.Method;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Prints the settings that this version of Kafka defines, a line for each:
 * kind | key | type | default | valid values | note. Notes are "dynamic" (a running broker takes a
 * change), "dynamic only" (no key of server.properties), and a topic's "default of KEY": the
 * broker's key that it comes from. Several classes moved between versions, hence the reflection.
 */
public class ConfigDefs {
    public static void main(String[] arguments) throws Exception {
        ConfigDef broker = (ConfigDef) find(
            "org.apache.kafka.server.config.AbstractKafkaConfig#CONFIG_DEF",
            "kafka.server.KafkaConfig$#configDef");
        Map<String, String> notes = new HashMap<>();
        Object dynamic = find("kafka.server.DynamicBrokerConfig$#AllDynamicConfigs");
        for (String key : CollectionConverters.asJava((scala.collection.Iterable<String>) dynamic))
            notes.put(key, "dynamic");
        ConfigDef quotas = (ConfigDef) find(
            "kafka.server.DynamicConfig$Broker$#brokerConfigDef",
            "kafka.server.DynamicConfig$Broker$#brokerConfigs");
        for (String key : quotas.names())
            if (!broker.names().contains(key))
                notes.put(key, "dynamic only");
        print("broker", broker, notes);
        print("broker", without(quotas, broker), notes);
        ConfigDef topic = (ConfigDef) find(
            "org.apache.kafka.storage.internals.log.LogConfig#configDefCopy",
            "kafka.log.LogConfig$#configDefCopy");
        print("topic", topic, serverDefaults(topic));
        print("producer", ProducerConfig.configDef(), Map.of());
        print("consumer", ConsumerConfig.configDef(), Map.of());
        print("admin", AdminClientConfig.configDef(), Map.of());
    }

    /** Return the notes of topics' keys. */
    private static Map<String, String> serverDefaults(ConfigDef topic) throws Exception {
        Map<String, String> notes = new HashMap<>();
        for (String key : topic.names()) {
            Object name;
            try {
                name = Class.forName("org.apache.kafka.server.config.ServerTopicConfigSynonyms")
                    .getMethod("serverSynonym", String.class).invoke(null, key);
            } catch (ClassNotFoundException before3) {
                Method of = topic.getClass().getMethod("serverConfigName", String.class);
                of.setAccessible(true);
                Object found = of.invoke(topic, key);
                scala.Option<?> option = (scala.Option<?>) found;
                name = option.isEmpty() ? null : option.get();
            } catch (ReflectiveOperationException none) { // a key that no server's key stands behind
                name = null;
            }
            if (name != null)
                notes.put(key, "default of " + name);
        }
        return notes;
    }

    private static ConfigDef without(ConfigDef all, ConfigDef known) {
        ConfigDef rest = new ConfigDef();
        for (ConfigDef.ConfigKey key : all.configKeys().values())
            if (!known.names().contains(key.name))
                rest.define(key);
        return rest;
    }

    private static void print(String kind, ConfigDef def, Map<String, String> notes) {
        for (String name : new TreeSet<>(def.names())) {
            ConfigDef.ConfigKey key = def.configKeys().get(name);
            Object given = key.hasDefault() ? key.defaultValue : "(required)";
            List<Object> row = List.of(
                kind, name, key.type, shown(given), shown(key.validator),
                notes.getOrDefault(name, "-"));
            System.out.println(row.stream().map(Object::toString).collect(Collectors.joining(" | ")));
        }
    }

    private static String shown(Object value) {
        if (value instanceof Collection<?> list)
            return list.stream().map(ConfigDefs::shown).collect(Collectors.joining(","));
        if (value instanceof Class<?> type)
            return type.getName();
        String text = String.valueOf(value);
        return text.contains("Lambda") ? "a function" : text.replaceAll("@[0-9a-f]+$", "");
    }

    /** Return the first of these class#member that exists: a field, or what a method returns. */
    private static Object find(String... places) throws Exception {
        for (String place : places) {
            String[] parts = place.split("#");
            try {
                Class<?> type = Class.forName(parts[0]);
                Object of = parts[0].endsWith("$") ? type.getField("MODULE$").get(null) : null;
                try {
                    return open(type.getDeclaredMethod(parts[1])).invoke(of);
                } catch (NoSuchMethodException field) {
                    return open(type.getDeclaredField(parts[1])).get(of);
                }
            } catch (ClassNotFoundException | NoSuchFieldException elsewhere) {
                continue;
            }
        }
        throw new IllegalStateException("none of " + List.of(places));
    }

    private static <T extends AccessibleObject> T open(T member) {
        member.setAccessible(true);
        return member;
    }
}
