package oracle;

import java.lang.reflect.Constructor;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.connect.json.JsonConverter;

/** How stores are made without a broker, and what they share. */
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
     * Runs the longest public constructor, each argument being what its type asks for. These
     * constructors only keep what they are given; none touches the network.
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
        // Time is the other one, and only writers look at it.
        return type.getSimpleName().equals("Converter") ? converter() : null;
    }
}
