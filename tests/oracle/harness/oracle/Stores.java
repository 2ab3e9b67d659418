package oracle;

import java.lang.reflect.Constructor;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.connect.json.JsonConverter;

/** Constructors of stores without a broker, and their common parts. */
final class Stores {
    static final String PACKAGE = "org.apache.kafka.connect.storage.";

    private static final StringDeserializer KEYS = new StringDeserializer();

    private Stores() {
    }

    /** The converter that a worker reads its topics with. */
    static JsonConverter converter() {
        JsonConverter converter = new JsonConverter();
        // Offset keys are read as keys, all else as values; schemas are off for both.
        converter.configure(Map.of("schemas.enable", "false"), false);
        return converter;
    }

    /** Keys of the config and status topics are text. */
    static String text(byte[] key) {
        return KEYS.deserialize("", key);
    }

    /**
     * Calls the longest public constructor with one argument per type. These constructors only
     * store their arguments; none uses the network.
     */
    static Object made(Class<?> type) {
        Constructor<?> longest = Arrays.stream(type.getConstructors())
            .max(Comparator.comparingInt(Constructor::getParameterCount)).orElseThrow();
        Object[] arguments = Arrays.stream(longest.getParameterTypes())
            .map(Stores::argument).toArray();
        try {
            return longest.newInstance(arguments);
        } catch (ReflectiveOperationException error) {
            throw new AssertionError(error);
        }
    }

    private static Object argument(Class<?> type) {
        if (type.isInstance("")) {
            return "oracle-";
        }
        if (type == Supplier.class) {
            return (Supplier<Object>) () -> null;
        }
        // The other type is Time, which only writers use.
        return type.getSimpleName().equals("Converter") ? converter() : null;
    }
}
