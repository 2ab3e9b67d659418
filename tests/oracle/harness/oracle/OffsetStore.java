package oracle;

import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
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
            // Until 3.2 `configure` makes the field and the log.
            Fields.set(store, "data", new HashMap<>());
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
        Map<?, ?> partitions = (Map<?, ?>) Fields.get(store, "connectorPartitions");
        answer.put("partitions", partitions);
        if (partitions != null) {
            Map<Object, Object> offsets = new HashMap<>();
            partitions.forEach((name, all) ->
                offsets.put(name, offsets((String) name, (Collection<?>) all)));
            answer.put("offsets", offsets);
        }
        return answer;
    }

    /** Offsets of a connector, as a worker answers them. */
    private List<Object> offsets(String connector, Collection<?> partitions) {
        Class<?> type = Fields.classNamed(Stores.PACKAGE + "OffsetStorageReaderImpl");
        try {
            Object reader = type.getConstructors()[0].newInstance(
                backing(), connector, Stores.converter(), Stores.converter());
            Map<?, ?> found = (Map<?, ?>)
                type.getMethod("offsets", Collection.class).invoke(reader, partitions);
            List<Object> offsets = new ArrayList<>();
            found.forEach((partition, offset) -> offsets.add(new Object[] {partition, offset}));
            return offsets;
        } catch (ReflectiveOperationException error) {
            return List.of(Fields.cause(error).getClass().getSimpleName());
        }
    }

    /** The store as readers see it, without first reading its topic to the end. */
    private Object backing() {
        Map<?, ?> data = (Map<?, ?>) Fields.get(store, "data");
        Class<?> type = Fields.classNamed(Stores.PACKAGE + "OffsetBackingStore");
        return Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type},
            (proxy, method, arguments) -> {
                Map<Object, Object> values = new HashMap<>();
                ((Collection<?>) arguments[0]).forEach(key -> values.put(key, data.get(key)));
                return CompletableFuture.completedFuture(values);
            });
    }
}
