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
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.connect.runtime.isolation.Plugins;

/**
 * Writes what one Kafka release defines: the config keys of connectors and of the clients that they
 * override, and every plugin on the class path with the keys it defines. One JSON object on the last
 * line of the output.
 *
 * <p>A JDK runs this file without compiling it first: {@code java -cp JARS Definitions.java}. It
 * therefore stands alone and uses nothing newer than Java 11.
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

    /** A transformation that every release has. Connect adds the keys that all transformations share. */
    private static final Map<String, String> TRANSFORMED = Map.of(
        "transforms", "a", "transforms.a.type", "org.apache.kafka.connect.transforms.RegexRouter");

    private Definitions() {
    }

    public static void main(String[] arguments) {
        Plugins present = new Plugins(Map.of());
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("release", AppInfoParser.getVersion());
        DEFINING.forEach((name, type) -> found.put(name, keys(definition(classNamed(type)))));
        found.put("transformed", keys(transformed(present)));
        found.put("plugins", plugins(present));
        StringBuilder line = new StringBuilder();
        write(line, found);
        System.out.println();
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

    /** Connect's definition of a connector with one transformation. */
    private static ConfigDef transformed(Plugins present) {
        for (Method method : classNamed(DEFINING.get("connector")).getMethods()) {
            if (method.getName().equals("enrich")) {
                try {
                    return (ConfigDef) method.invoke(null, present, new ConfigDef(), TRANSFORMED, false);
                } catch (ReflectiveOperationException | IllegalArgumentException error) {
                    return null; // only these keys are then unknown
                }
            }
        }
        return null;
    }

    private static List<Object> plugins(Plugins present) {
        Map<String, Object> described = new LinkedHashMap<>();
        for (String getter : PLUGINS) {
            Object some = call(present, getter);
            for (Object plugin : some == null ? List.of() : (Collection<?>) some) {
                // A class may be a plugin of two kinds: a converter of values and one of headers.
                described.putIfAbsent(plugin.toString() + getter.contains("header"), plugin(plugin, getter));
            }
        }
        return new ArrayList<>(described.values());
    }

    private static Map<String, Object> plugin(Object plugin, String getter) {
        Class<?> type = (Class<?>) call(plugin, "pluginClass");
        Map<String, Object> described = new LinkedHashMap<>();
        described.put("class", type.getName());
        described.put("among", getter);
        described.put("type", call(plugin, "typeName"));
        described.put("version", call(plugin, "version"));
        described.put("config", keys(config(type)));
        return described;
    }

    private static ConfigDef config(Class<?> type) {
        try {
            Constructor<?> constructor = type.getDeclaredConstructor();
            constructor.setAccessible(true);
            return (ConfigDef) call(constructor.newInstance(), "config");
        } catch (ReflectiveOperationException | LinkageError | AssertionError unusable) {
            return null; // abstract, hidden, or failing
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

    /** Texts of validators about themselves, each with its class: not every validator has a text. */
    private static List<String> valid(Object validator) {
        if (validator == null) {
            return List.of();
        }
        Object parts = field(validator, "validators");
        List<String> texts = new ArrayList<>();
        for (Object part : parts == null ? List.of(validator) : (List<?>) parts) {
            Object empty = field(part, "isEmptyAllowed");
            String flags = empty == null ? "" : " empty " + empty + " null " + field(part, "isNullAllowed");
            texts.add(part.getClass().getSimpleName() + " | " + part + flags);
        }
        return texts;
    }

    // --- reflection, in which a name that a release lacks is null ---------------------------------

    private static Class<?> classNamed(String name) {
        try {
            return Class.forName(name);
        } catch (ClassNotFoundException missing) {
            return null;
        }
    }

    private static Object call(Object owner, String name) {
        try {
            Method method = owner.getClass().getMethod(name);
            method.setAccessible(true);
            return method.invoke(owner);
        } catch (NoSuchMethodException missing) {
            return null;
        } catch (ReflectiveOperationException error) {
            throw new AssertionError(error);
        }
    }

    private static Object field(Object owner, String name) {
        for (Class<?> at = owner.getClass(); at != null; at = at.getSuperclass()) {
            try {
                Field field = at.getDeclaredField(name);
                field.setAccessible(true);
                return field.get(owner);
            } catch (NoSuchFieldException missing) {
                continue;
            } catch (IllegalAccessException error) {
                throw new AssertionError(error);
            }
        }
        return null;
    }

    // --- JSON, in ASCII ---------------------------------------------------------------------------

    private static void write(StringBuilder out, Object value) {
        if (value instanceof Map) {
            String comma = "";
            out.append('{');
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                quote(out.append(comma), entry.getKey().toString());
                write(out.append(':'), entry.getValue());
                comma = ",";
            }
            out.append('}');
        } else if (value instanceof Collection) {
            String comma = "";
            out.append('[');
            for (Object item : (Collection<?>) value) {
                write(out.append(comma), item);
                comma = ",";
            }
            out.append(']');
        } else if (value == null || value instanceof Integer) {
            out.append(value);
        } else {
            quote(out, value.toString());
        }
    }

    private static void quote(StringBuilder out, String text) {
        out.append('"');
        for (char unit : text.toCharArray()) {
            boolean plain = unit >= ' ' && unit <= '~' && unit != '"' && unit != '\\';
            out.append(plain ? String.valueOf(unit) : String.format("\\u%04x", (int) unit));
        }
        out.append('"');
    }
}
