package oracle;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Collection;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.crypto.SecretKey;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * Writes what stores hold as JSON, in ASCII. Bytes become hex; doubles and booleans, which others
 * confuse with integers, become objects with one field named after their type.
 */
final class Json {
    /** JSON that is written already. */
    record Raw(String text) {
    }

    /** Getters of the classes of Kafka that are shown, by simple name of the class. */
    private static final Map<String, List<String>> SHOWN = Map.of(
        "ConnectorStatus", List.of("state", "trace", "workerId", "generation", "version"),
        "TaskStatus", List.of("state", "trace", "workerId", "generation", "version"),
        "TopicStatus", List.of("topic", "connector", "task", "discoverTimestamp"),
        "SessionKey", List.of("key", "creationTimestamp"),
        "RestartRequest", List.of("connectorName", "includeTasks", "onlyFailed"));

    private Json() {
    }

    static void write(StringBuilder out, Object value) {
        if (value == null || value instanceof Long || value instanceof Integer) {
            out.append(value);
        } else if (value instanceof Raw raw) {
            out.append(raw.text());
        } else if (value instanceof String text) {
            quote(out, text);
        } else if (value instanceof Boolean) {
            out.append("{\"boolean\":").append(value).append('}');
        } else if (value instanceof Double number) {
            String bits = HexFormat.of().toHexDigits(Double.doubleToLongBits(number));
            out.append("{\"double\":\"").append(bits).append("\"}");
        } else if (value instanceof Map<?, ?> map) {
            write(out, map);
        } else if (value instanceof Collection<?> items) {
            write(out, items);
        } else if (value instanceof Object[] items) {
            write(out, Arrays.asList(items));
        } else {
            writeOther(out, value);
        }
    }

    private static void writeOther(StringBuilder out, Object value) {
        List<String> getters = SHOWN.get(value.getClass().getSimpleName());
        if (getters != null) {
            Map<String, Object> shown = new LinkedHashMap<>();
            getters.forEach(getter -> shown.put(getter, Fields.call(value, getter)));
            write(out, shown);
        } else if (value instanceof ByteBuffer bytes) {
            write(out, HexFormat.of().formatHex(bytes.array()));
        } else if (value instanceof SecretKey key) {
            write(out, List.of(key.getAlgorithm(), HexFormat.of().formatHex(key.getEncoded())));
        } else if (value instanceof ConnectorTaskId id) {
            write(out, List.of(id.connector(), id.task()));
        } else if (value instanceof Enum<?> constant) {
            write(out, constant.name());
        } else {
            throw new AssertionError(value.getClass());
        }
    }

    private static void write(StringBuilder out, Collection<?> items) {
        String comma = "[";
        for (Object item : items) {
            out.append(comma);
            write(out, item);
            comma = ",";
        }
        out.append(items.isEmpty() ? "[]" : "]");
    }

    private static void write(StringBuilder out, Map<?, ?> map) {
        String comma = "{";
        for (Map.Entry<?, ?> entry : map.entrySet()) {
            out.append(comma);
            quote(out, name(entry.getKey()));
            out.append(':');
            write(out, entry.getValue());
            comma = ",";
        }
        out.append(map.isEmpty() ? "{}" : "}");
    }

    /** A task id is shown behind its connector; a connector's name may hold any character. */
    private static String name(Object key) {
        return key instanceof ConnectorTaskId id ? id.task() + "/" + id.connector() : key.toString();
    }

    private static void quote(StringBuilder out, String text) {
        out.append('"');
        for (int at = 0; at < text.length(); at++) {
            char unit = text.charAt(at);
            if (unit < ' ' || unit > '~' || unit == '"' || unit == '\\') {
                out.append("\\u").append(HexFormat.of().toHexDigits(unit));
            } else {
                out.append(unit);
            }
        }
        out.append('"');
    }
}
