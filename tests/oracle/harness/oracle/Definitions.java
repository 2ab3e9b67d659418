package oracle;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.ConfigKey;
import org.apache.kafka.connect.runtime.isolation.Plugins;

/**
 * Writes what one Kafka release defines: the config keys of connectors and of the clients that they
 * override, and every plugin on the class path with the keys it defines. One JSON object.
 */
public final class Definitions {
    private static final String CONNECT = "org.apache.kafka.connect.runtime.";
    private static final String CLIENTS = "org.apache.kafka.clients.";

    private static final Map<String, String> DEFINING = new TreeMap<>(Map.of(
        "connector", CONNECT + "ConnectorConfig",
        "source", CONNECT + "SourceConnectorConfig",
        "sink", CONNECT + "SinkConnectorConfig",
        "producer", CLIENTS + "producer.ProducerConfig",
        "consumer", CLIENTS + "consumer.ConsumerConfig",
        "admin", CLIENTS + "admin.AdminClientConfig"));

    /** Getters of {@link Plugins}. Before 3.2 there is one for sinks and sources together. */
    private static final List<String> PLUGINS = List.of(
        "connectors", "sinkConnectors", "sourceConnectors", "transformations", "predicates",
        "converters", "headerConverters");

    private Definitions() {
    }

    public static void main(String[] arguments) {
        Map<String, Object> found = new LinkedHashMap<>();
        DEFINING.forEach((name, type) -> found.put(name, keys(definition(Fields.classNamed(type)))));
        found.put("plugins", plugins());
        StringBuilder line = new StringBuilder();
        Json.write(line, found);
        System.out.println(line);
        System.out.flush();
        Runtime.getRuntime().halt(0); // plugins may have left threads behind
    }

    /** Newer releases have a method, older ones a constant. */
    private static ConfigDef definition(Class<?> type) {
        if (type == null) {
            return new ConfigDef();
        }
        try {
            Method method = type.getDeclaredMethod("configDef");
            method.setAccessible(true);
            return (ConfigDef) method.invoke(null);
        } catch (NoSuchMethodException missing) {
            return constant(type);
        } catch (ReflectiveOperationException error) {
            throw new AssertionError(error);
        }
    }

    private static ConfigDef constant(Class<?> type) {
        try {
            Field field = type.getDeclaredField("CONFIG");
            field.setAccessible(true);
            return (ConfigDef) field.get(null);
        } catch (ReflectiveOperationException error) {
            throw new AssertionError(error);
        }
    }

    private static List<Object> plugins() {
        Plugins present = new Plugins(Map.of());
        Map<String, Object> described = new LinkedHashMap<>();
        for (String getter : PLUGINS) {
            Object some = Fields.call(present, getter);
            for (Object plugin : some == null ? List.of() : (Collection<?>) some) {
                // A class may be a plugin of two kinds: a converter of values and one of headers.
                described.putIfAbsent(plugin.toString() + getter.contains("header"), plugin(plugin, getter));
            }
        }
        return new ArrayList<>(described.values());
    }

    private static Map<String, Object> plugin(Object plugin, String getter) {
        Class<?> type = (Class<?>) Fields.call(plugin, "pluginClass");
        Map<String, Object> described = new LinkedHashMap<>();
        described.put("class", type.getName());
        described.put("among", getter);
        described.put("type", Fields.call(plugin, "typeName"));
        described.put("version", Fields.call(plugin, "version"));
        described.put("config", keys(config(type)));
        return described;
    }

    private static ConfigDef config(Class<?> type) {
        try {
            Constructor<?> constructor = type.getDeclaredConstructor();
            constructor.setAccessible(true);
            return (ConfigDef) Fields.call(constructor.newInstance(), "config");
        } catch (ReflectiveOperationException abstractOrHidden) {
            return null;
        }
    }

    /** The keys in their order; null for a class that defines none. */
    private static List<Object> keys(ConfigDef definition) {
        if (definition == null) {
            return null;
        }
        List<Object> keys = new ArrayList<>();
        definition.configKeys().values().forEach(key -> keys.add(key(key)));
        return keys;
    }

    private static Map<String, Object> key(ConfigKey key) {
        Map<String, Object> shown = new LinkedHashMap<>();
        shown.put("name", key.name);
        shown.put("type", key.type);
        if (ConfigDef.NO_DEFAULT_VALUE.equals(key.defaultValue)) {
            shown.put("required", 1);
        } else {
            shown.put("default", ConfigDef.convertToString(key.defaultValue, key.type));
        }
        shown.put("valid", valid(key.validator));
        shown.put("importance", key.importance);
        shown.put("documentation", key.documentation);
        shown.put("group", key.group);
        shown.put("order", key.orderInGroup);
        shown.put("width", key.width);
        shown.put("display_name", key.displayName);
        shown.put("dependents", key.dependents);
        return shown;
    }

    /** How the validators describe themselves, and the class of one that does not. */
    private static List<String> valid(Object validator) {
        if (validator == null) {
            return List.of();
        }
        Object parts = Fields.get(validator, "validators");
        List<String> texts = new ArrayList<>();
        for (Object part : parts == null ? List.of(validator) : (List<?>) parts) {
            Object empty = Fields.get(part, "isEmptyAllowed");
            String flags = empty == null ? "" : " empty " + empty + " null " + Fields.get(part, "isNullAllowed");
            texts.add(part.getClass().getSimpleName() + " | " + part + flags);
        }
        return texts;
    }
}
