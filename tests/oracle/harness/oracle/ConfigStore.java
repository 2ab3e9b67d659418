package oracle;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.connect.util.Callback;

/** `KafkaConfigBackingStore` of the release on the class path; of 0.9 `KafkaConfigStorage`. */
final class ConfigStore {
    private static final Class<?> TYPE =
        Fields.classNamed(Stores.PACKAGE + "KafkaConfigBackingStore");
    private static final String[] MAPS = {
        "connectorConfigs", "connectorTargetStates", "connectorTaskCounts", "taskConfigs",
        "deferredTaskUpdates", "inconsistent", "connectorTaskCountRecords",
        "connectorTaskConfigGenerations", "connectorsPendingFencing", "sessionKey", "offset",
    };

    private final Object store;
    private final Callback<ConsumerRecord<String, byte[]>> callback;

    @SuppressWarnings("unchecked")
    ConfigStore(List<Object> calls) {
        store = TYPE == null ? storage(calls) : backingStore(calls);
        callback = (Callback<ConsumerRecord<String, byte[]>>)
            (TYPE == null ? Fields.get(store, "consumedCallback") : consumeCallback());
    }

    /** Turns the calls of the listener on or off. */
    void setStarted(boolean started) {
        Fields.set(store, "started", started);
        Fields.set(store, "starting", !started);
    }

    void read(ConsumerRecord<byte[], byte[]> record) {
        callback.onCompletion(null, new ConsumerRecord<>(
            record.topic(), 0, record.offset(), Stores.text(record.key()), record.value()));
    }

    /** State of the store, and the tasks of each connector in a snapshot of it. */
    Map<String, Object> snapshot() {
        Map<String, Object> answer = new LinkedHashMap<>();
        for (String name : MAPS) {
            answer.put(name, Fields.get(store, name));
        }
        Map<?, ?> applied = (Map<?, ?>) Fields.get(store, "appliedConnectorConfigs");
        if (applied != null) {
            Map<Object, Object> raw = new HashMap<>();
            applied.forEach((name, config) -> raw.put(name, Fields.get(config, "rawConfig")));
            answer.put("appliedConnectorConfigs", raw);
        }
        answer.put("tasks", tasks());
        return answer;
    }

    /** The `ClusterConfigState` that the store gives to a worker. */
    Object clusterState() {
        return Fields.call(store, "snapshot");
    }

    private Map<Object, Object> tasks() {
        Set<Object> names = new HashSet<>(((Map<?, ?>) Fields.get(store, "connectorConfigs")).keySet());
        names.addAll(((Map<?, ?>) Fields.get(store, "connectorTaskCounts")).keySet());
        Object snapshot = clusterState();
        Map<Object, Object> tasks = new HashMap<>();
        for (Object name : names) {
            try {
                tasks.put(name, snapshot.getClass().getMethod("tasks", String.class)
                    .invoke(snapshot, name));
            } catch (ReflectiveOperationException error) {
                tasks.put(name, Fields.cause(error).getClass().getSimpleName());
            }
        }
        return tasks;
    }

    private static Object storage(List<Object> calls) {
        Callback<Object> connectors = (error, name) -> told(calls, "onConnectorConfig", name);
        Callback<Object> tasks = (error, ids) -> told(calls, "onTaskConfigUpdate", ids);
        Class<?> type = Fields.classNamed(Stores.PACKAGE + "KafkaConfigStorage");
        try {
            return type.getConstructors()[0].newInstance(Stores.converter(), connectors, tasks);
        } catch (ReflectiveOperationException error) {
            throw new AssertionError(error);
        }
    }

    /**
     * A store whose constructor did not run: from 2.6 on it asks a broker for the id of the cluster.
     * This method sets the fields that readers use instead.
     */
    static Object backingStore(List<Object> calls) {
        Object made = Fields.unmade(TYPE);
        for (Field field : TYPE.getDeclaredFields()) {
            if (!Modifier.isStatic(field.getModifiers())) {
                Fields.set(made, field.getName(), initial(field));
            }
        }
        Fields.set(made, "converter", Stores.converter());
        Fields.set(made, "offset", -1L);
        Fields.set(made, "topic", "config");
        Fields.set(made, "updateListener", listener(calls));
        return made;
    }

    private static Object initial(Field field) {
        Class<?> type = field.getType();
        if (type == Map.class) {
            return new HashMap<>();
        }
        if (type == Set.class) {
            return new HashSet<>();
        }
        if (type == boolean.class) {
            return false;
        }
        if (type == long.class) {
            return 0L;
        }
        return field.getName().equals("lock") ? new Object() : null;
    }

    private Object consumeCallback() {
        try {
            Class<?> type = Class.forName(TYPE.getName() + "$ConsumeCallback");
            // Old compilers add a second constructor for their own use.
            Constructor<?> constructor = Arrays.stream(type.getDeclaredConstructors())
                .filter(one -> one.getParameterCount() == 1).findFirst().orElseThrow();
            constructor.setAccessible(true);
            return constructor.newInstance(store);
        } catch (ReflectiveOperationException error) {
            throw new AssertionError(error);
        }
    }

    private static Object listener(List<Object> calls) {
        Class<?> type = Fields.classNamed(Stores.PACKAGE + "ConfigBackingStore$UpdateListener");
        return Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type},
            (proxy, method, arguments) -> told(calls, method.getName(), arguments));
    }

    private static Object told(List<Object> calls, String name, Object... arguments) {
        // Converted to text at once: the store may change the objects later.
        StringBuilder call = new StringBuilder();
        Json.write(call, arguments);
        calls.add(new Object[] {name, new Json.Raw(call.toString())});
        return null;
    }
}
