package oracle;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.connect.util.Callback;

/** `KafkaOffsetBackingStore` of the release on the class path. */
final class OffsetStore {
    private static final Class<?> TYPE =
        Fields.classNamed(Stores.PACKAGE + "KafkaOffsetBackingStore");

    private final Object store = Stores.made(TYPE);
    private final Callback<ConsumerRecord<byte[], byte[]>> callback;

    @SuppressWarnings("unchecked")
    OffsetStore() {
        if (Fields.get(store, "data") == null) {
            Fields.set(store, "data", new java.util.HashMap<>());
        }
        callback = (Callback<ConsumerRecord<byte[], byte[]>>) Fields.get(store, "consumedCallback");
    }

    void read(ConsumerRecord<byte[], byte[]> record) {
        callback.onCompletion(null, record);
    }

    /** Raw keys and values; and, in releases that parse keys, the partitions of each connector. */
    Map<String, Object> snapshot() {
        List<Object> entries = new ArrayList<>();
        ((Map<?, ?>) Fields.get(store, "data")).forEach(
            (key, value) -> entries.add(new Object[] {key, value}));
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("data", entries);
        answer.put("partitions", Fields.get(store, "connectorPartitions"));
        return answer;
    }
}
