package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.function.Supplier;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.runtime.rest.entities.ConnectorOffsets;
import org.apache.kafka.connect.storage.ConnectorOffsetBackingStore;
import org.apache.kafka.connect.storage.KafkaOffsetBackingStore;
import org.apache.kafka.connect.storage.MemoryOffsetBackingStore;
import org.apache.kafka.connect.storage.OffsetBackingStore;
import org.apache.kafka.connect.storage.OffsetStorageWriter;
import org.apache.kafka.connect.storage.OffsetUtils;
import org.apache.kafka.connect.util.Callback;
import org.apache.kafka.connect.util.LoggingContext;
import org.apache.kafka.connect.util.SinkUtils;

/**
 * Passes requests to alter offsets to Kafka's classes. Standard input: one request per line, {@code
 * {"connector", "own", "sink", "request"}}. Standard output: one JSON list of texts per request. It
 * has the arguments of the hook, then each record in the order of sending; or the message of the
 * exception.
 */
public final class OffsetRequests {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    private final JsonConverter keys = new JsonConverter();
    private final JsonConverter values = new JsonConverter();
    private final List<String> seen = new ArrayList<>();

    private OffsetRequests() {
        keys.configure(Map.of("schemas.enable", "false"), true);
        values.configure(Map.of("schemas.enable", "false"), false);
    }

    public static void main(String[] arguments) throws IOException {
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode asked = MAPPER.readTree(line);
            answers.println(MAPPER.writeValueAsString(new OffsetRequests().answer(asked)));
        }
        answers.flush();
    }

    private List<String> answer(JsonNode asked) throws IOException {
        ConnectorOffsets request =
            MAPPER.readValue(MAPPER.writeValueAsBytes(asked.get("request")), ConnectorOffsets.class);
        try {
            if (asked.get("sink").asBoolean()) {
                parse(request);
            } else {
                write(asked.get("connector").asText(), asked.get("own").asBoolean(), request);
            }
            return seen;
        } catch (Exception refused) {
            return List.of("refused: " + refused.getMessage());
        }
    }

    private void parse(ConnectorOffsets request) {
        Map<TopicPartition, Long> parsed = SinkUtils.parseSinkConnectorOffsets(request.toMap());
        parsed.forEach((partition, offset) -> seen.add("hook: " + partition + " " + offset));
    }

    /** Does the work of {@code Worker#modifySourceConnectorOffsets} without worker, topics and hook. */
    private void write(String connector, boolean own, ConnectorOffsets request) throws Exception {
        Map<Map<String, ?>, Map<String, ?>> normalized = normalize(request.toMap());
        normalized.forEach((partition, offset) -> seen.add("hook: " + partition + " " + offset));
        OffsetStorageWriter writer =
            new OffsetStorageWriter(store(own), connector, keys, values);
        normalized.forEach(writer::offset);
        writer.beginFlush();
        writer.doFlush((error, done) -> { });
    }

    @SuppressWarnings("unchecked")
    private Map<Map<String, ?>, Map<String, ?>> normalize(Map<Map<String, ?>, Map<String, ?>> offsets) {
        Map<Map<String, ?>, Map<String, ?>> normalized = new HashMap<>();
        for (Map.Entry<Map<String, ?>, Map<String, ?>> entry : offsets.entrySet()) {
            OffsetUtils.validateFormat(entry.getKey());
            OffsetUtils.validateFormat(entry.getValue());
            byte[] key = keys.fromConnectData("", null, entry.getKey());
            byte[] value = values.fromConnectData("", null, entry.getValue());
            normalized.put(
                (Map<String, ?>) keys.toConnectData("", key).value(),
                (Map<String, ?>) values.toConnectData("", value).value());
        }
        return normalized;
    }

    /** Kafka's store over two recording stores. Its constructor is not public. */
    private OffsetBackingStore store(boolean own) throws ReflectiveOperationException {
        Supplier<LoggingContext> logging = () -> LoggingContext.forConnector("c");
        Constructor<?> constructor = ConnectorOffsetBackingStore.class.getDeclaredConstructors()[0];
        constructor.setAccessible(true);
        Object dedicated = own ? new Dedicated() : null;
        return (OffsetBackingStore) constructor.newInstance(
            Time.SYSTEM, logging, "own", new Workers(), dedicated, null);
    }

    private Future<Void> note(
            String topic, Map<ByteBuffer, ByteBuffer> offsets, Callback<Void> callback) {
        offsets.forEach((key, value) -> seen.add(topic + ": " + text(key) + " " + text(value)));
        callback.onCompletion(null, null);
        return CompletableFuture.completedFuture(null);
    }

    private static String text(ByteBuffer bytes) {
        return bytes == null ? "null" : new String(bytes.array(), StandardCharsets.UTF_8);
    }

    private final class Workers extends MemoryOffsetBackingStore {
        @Override
        public Set<Map<String, Object>> connectorPartitions(String connector) {
            return Set.of();
        }

        @Override
        public Future<Void> set(Map<ByteBuffer, ByteBuffer> offsets, Callback<Void> callback) {
            return note("connect-offsets", offsets, callback);
        }
    }

    private final class Dedicated extends KafkaOffsetBackingStore {
        Dedicated() {
            super(() -> null, () -> "own", keys);
        }

        @Override
        public Future<Void> set(Map<ByteBuffer, ByteBuffer> offsets, Callback<Void> callback) {
            return note("own", offsets, callback);
        }
    }
}
