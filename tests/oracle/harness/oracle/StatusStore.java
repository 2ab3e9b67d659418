package oracle;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/** `KafkaStatusBackingStore` of the release on the class path; 0.9 has none. */
final class StatusStore {
    private static final Class<?> TYPE =
        Fields.classNamed(Stores.PACKAGE + "KafkaStatusBackingStore");

    private final Object store;
    private final Method read;

    StatusStore() {
        store = TYPE == null ? null : Stores.made(TYPE);
        read = TYPE == null ? null : reader();
        if (store != null) {
            Fields.set(store, "statusTopic", "status");
            Fields.set(store, "topic", "status");
        }
    }

    private static Method reader() {
        try {
            Method method = TYPE.getDeclaredMethod("read", ConsumerRecord.class);
            method.setAccessible(true);
            return method;
        } catch (NoSuchMethodException error) {
            throw new AssertionError(error);
        }
    }

    void read(ConsumerRecord<byte[], byte[]> record) {
        if (store == null) {
            return;
        }
        try {
            read.invoke(store, new ConsumerRecord<>(
                record.topic(), 0, record.offset(), Stores.text(record.key()), record.value()));
        } catch (InvocationTargetException error) {
            throw Fields.raise(error.getCause());
        } catch (IllegalAccessException error) {
            throw new AssertionError(error);
        }
    }

    /** The entry of a connector, which may be empty. */
    Object cached(String connector) {
        try {
            Method method = TYPE.getDeclaredMethod("getOrAdd", String.class);
            method.setAccessible(true);
            return method.invoke(store, connector);
        } catch (ReflectiveOperationException error) {
            throw new AssertionError(error);
        }
    }

    /** Null in releases without a status topic. */
    Map<String, Object> snapshot() {
        if (store == null) {
            return null;
        }
        Map<Object, Object> tasks = new HashMap<>();
        rows().forEach((name, row) -> tasks.put(name, cached(row)));
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("connectors", cached((Map<?, ?>) Fields.get(store, "connectors")));
        answer.put("tasks", tasks);
        answer.put("topics", Fields.get(store, "topics"));
        return answer;
    }

    @SuppressWarnings("unchecked")
    private Map<Object, Map<Object, Object>> rows() {
        return (Map<Object, Map<Object, Object>>) Fields.get(Fields.get(store, "tasks"), "table");
    }

    private static Map<Object, Object> cached(Map<?, ?> entries) {
        Map<Object, Object> statuses = new HashMap<>();
        entries.forEach((key, entry) -> statuses.put(key, Fields.get(entry, "value")));
        return statuses;
    }
}
