package oracle;

import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.connect.util.Callback;
import org.slf4j.LoggerFactory;

/**
 * Prints records that a worker of the release on the class path writes, and the settings of its
 * readers, as far as its classes show them without a broker. The output is one line of JSON, whose
 * values are texts. It has no entry for a class or method that the release lacks.
 */
public final class Writing {
    private static final String RUNTIME = "org.apache.kafka.connect.runtime.";
    private static final Class<?> HERDER =
        Fields.classNamed(RUNTIME + "distributed.DistributedHerder");
    private static final ByteBuffer KEY = ByteBuffer.wrap(new byte[] {'k'});
    private static final String TASK_ID = "org.apache.kafka.connect.util.ConnectorTaskId";

    private Writing() {
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> answers = new LinkedHashMap<>();
        answers.put("safely", safely());
        answers.put("vanished", vanished());
        answers.put("rewritten", rewritten());
        answers.put("isolation", isolation());
        answers.put("fallback", fallback());
        answers.values().removeIf(answer -> answer == null);
        StringBuilder line = new StringBuilder();
        Json.write(line, answers);
        System.out.println(line);
    }

    // --- KafkaStatusBackingStore.CacheEntry: may worker `w` of generation 2 write? --------------

    private static Map<String, Object> safely() throws Exception {
        if (Fields.classNamed(Stores.PACKAGE + "KafkaStatusBackingStore") == null) {
            return null;
        }
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("nothing", safely(new StatusStore()));
        answer.put("own, of generation 3", safely(reported("w", 3)));
        answer.put("another's, of generation 1", safely(reported("other", 1)));
        answer.put("another's, of generation 2", safely(reported("other", 2)));
        answer.put("another's, of generation 3", safely(reported("other", 3)));
        return answer;
    }

    private static StatusStore reported(String worker, int generation) {
        StatusStore store = new StatusStore();
        store.read(record("status", "status-connector-a",
            "{\"state\":\"RUNNING\",\"trace\":null,\"worker_id\":\"" + worker
                + "\",\"generation\":" + generation + "}"));
        return store;
    }

    private static String safely(StatusStore store) throws Exception {
        Object entry = store.cached("a");
        for (Method method : entry.getClass().getDeclaredMethods()) {
            // Earlier name: `canWrite`.
            if (method.getName().startsWith("canWrite") && method.getParameterCount() == 1) {
                method.setAccessible(true);
                return (boolean) method.invoke(entry, status("ConnectorStatus", "a"))
                    ? "writes" : "refuses";
            }
        }
        throw new AssertionError(entry.getClass());
    }

    /** Status RUNNING on worker `w`, of generation 2. */
    private static Object status(String type, Object owner) throws Exception {
        Class<?> states = Fields.classNamed(RUNTIME + "AbstractStatus$State");
        Object running = states.getField("RUNNING").get(null);
        for (Constructor<?> made : Class.forName(RUNTIME + type).getConstructors()) {
            Class<?>[] types = made.getParameterTypes();
            if (types.length == 4 && types[3] == int.class) {
                return made.newInstance(owner, running, "w", 2);
            }
        }
        throw new AssertionError(type);
    }

    // --- DistributedHerder: statuses of tasks that a connector has no more -----------------------

    private static Object vanished() throws Exception {
        Method cleanup = method(HERDER, "updateDeletedTaskStatus");
        if (cleanup == null) {
            return null;
        }
        List<Object> statuses = new ArrayList<>();
        for (int task = 0; task < 2; task++) {
            Object id = Class.forName(TASK_ID).getConstructor(String.class, int.class)
                .newInstance("a", task);
            statuses.add(status("TaskStatus", id));
        }
        List<Object> put = new ArrayList<>();
        Object herder = herder();
        Object state = clusterState(1);
        Fields.set(herder, "configBackingStore",
            proxy("ConfigBackingStore", (proxy, called, arguments) -> state));
        Fields.set(herder, "statusBackingStore", proxy("StatusBackingStore",
            (proxy, called, arguments) -> {
                switch (called.getName()) {
                    case "connectors":
                        return Set.of("a");
                    case "getAll":
                        return statuses;
                    default:
                        Object id = Fields.call(arguments[0], "id");
                        put.add(id + " " + Fields.call(arguments[0], "state"));
                        return null;
                }
            }));
        cleanup.invoke(herder);
        return put;
    }

    // --- AbstractHerder: are task configs that have not changed written again? -------------------

    private static Object rewritten() throws Exception {
        Method changed = Arrays.stream(HERDER.getSuperclass().getDeclaredMethods())
            .filter(one -> one.getName().equals("taskConfigsChanged")).findFirst().orElse(null);
        if (changed == null) {
            return null;
        }
        changed.setAccessible(true);
        boolean again = (boolean) changed.invoke(herder(), clusterState(1), "a", List.of(Map.of("n", "0")));
        return again ? "again" : "not again";
    }

    /** Worker `w`, which runs nothing. */
    private static Object herder() {
        Object worker = Fields.unmade(Fields.classNamed(RUNTIME + "Worker"));
        Fields.set(worker, "tasks", new ConcurrentHashMap<>());
        Object herder = Fields.unmade(HERDER);
        // Some releases have such a method in both classes.
        for (Class<?> type : List.of(HERDER, HERDER.getSuperclass())) {
            Fields.set(type, herder, "log", LoggerFactory.getLogger(type));
        }
        Fields.set(herder, "worker", worker);
        Fields.set(herder, "workerId", "w");
        return herder;
    }

    /** A connector with this many tasks; its config changed after they were committed. */
    private static Object clusterState(int tasks) {
        ConfigStore store = new ConfigStore(new ArrayList<>());
        store.read(record("config", "connector-a", "{\"properties\":{\"k\":\"old\"}}"));
        for (int task = 0; task < tasks; task++) {
            store.read(record("config", "task-a-" + task, "{\"properties\":{\"n\":\"0\"}}"));
        }
        store.read(record("config", "commit-a", "{\"tasks\":" + tasks + "}"));
        store.read(record("config", "connector-a", "{\"properties\":{\"k\":\"new\"}}"));
        return store.clusterState();
    }

    // --- the isolation level of each store's consumer --------------------------------------------

    private static Map<String, Object> isolation() throws Exception {
        Class<?> config = Fields.classNamed(RUNTIME + "distributed.DistributedConfig");
        Class<?> worker = Fields.classNamed(RUNTIME + "WorkerConfig");
        // Without this field, each use asks a broker for the id of the cluster.
        if (Arrays.stream(worker.getDeclaredFields())
                .noneMatch(field -> field.getName().equals("kafkaClusterId"))) {
            return null;
        }
        Map<String, Object> answer = new LinkedHashMap<>();
        for (String support : List.of("disabled", "preparing", "enabled")) {
            Map<String, String> properties = new HashMap<>();
            for (String name : List.of("group.id", "config.storage.topic", "offset.storage.topic",
                    "status.storage.topic")) {
                properties.put(name, name);
            }
            for (String name : List.of("key.converter", "value.converter")) {
                properties.put(name, "org.apache.kafka.connect.json.JsonConverter");
            }
            properties.put("bootstrap.servers", "localhost:9092");
            properties.put("exactly.once.source.support", support);
            Object settings = config.getConstructor(Map.class).newInstance(properties);
            Fields.set(settings, "kafkaClusterId", "cluster");
            Object store = ConfigStore.backingStore(new ArrayList<>());
            Supplier<Object> admin = () -> null;
            Fields.set(store, "topicAdminSupplier", admin);
            Method setUp = store.getClass().getDeclaredMethod(
                "setupAndCreateKafkaBasedLog", String.class, worker);
            setUp.setAccessible(true);
            answer.put("config " + support, level(setUp.invoke(store, "config", settings)));
            answer.put("offsets " + support,
                level(Fields.get(configured("KafkaOffsetBackingStore", settings), "offsetLog")));
            answer.put("status " + support,
                level(Fields.get(configured("KafkaStatusBackingStore", settings), "kafkaLog")));
        }
        return answer;
    }

    private static Object configured(String name, Object settings) throws Exception {
        Class<?> type = Fields.classNamed(Stores.PACKAGE + name);
        Object store = Stores.made(type);
        Supplier<Object> clientId = () -> "oracle-";
        Fields.set(store, "clientIdBase", clientId);
        type.getMethod("configure", Fields.classNamed(RUNTIME + "WorkerConfig"))
            .invoke(store, settings);
        return store;
    }

    private static String level(Object log) {
        Map<?, ?> consumer = (Map<?, ?>) Fields.get(log, "consumerConfigs");
        return String.valueOf(consumer.get("isolation.level"));
    }

    // --- ConnectorOffsetBackingStore: what the connector's own topic lacks -----------------------

    private static Map<String, Object> fallback() throws Exception {
        Class<?> type = Fields.classNamed(Stores.PACKAGE + "ConnectorOffsetBackingStore");
        if (type == null) {
            return null;
        }
        Object workers = proxy("OffsetBackingStore", (proxy, called, arguments) ->
            CompletableFuture.completedFuture(Map.of(KEY, ByteBuffer.wrap(new byte[] {'v'}))));
        Supplier<Object> context = () -> null;
        Object admin = Fields.unmade(Fields.classNamed("org.apache.kafka.connect.util.TopicAdmin"));
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("no topic", found(
            made(type, "withOnlyWorkerStore").invoke(null, context, workers, "workers")));
        answer.put("a topic", found(made(type, "withConnectorAndWorkerStores")
            .invoke(null, context, workers, ownStore(), "own", admin)));
        return answer;
    }

    private static Method made(Class<?> type, String name) {
        return Arrays.stream(type.getMethods())
            .filter(one -> one.getName().equals(name)).findFirst().orElseThrow();
    }

    private static String found(Object store) throws Exception {
        Future<?> answer = (Future<?>)
            store.getClass().getMethod("get", Collection.class).invoke(store, List.of(KEY));
        return ((Map<?, ?>) answer.get()).get(KEY) == null ? "no offset" : "the worker's offset";
    }

    /** A store whose topic is empty and has been read to its end. */
    private static Object ownStore() {
        Object log = Fields.unmade(Fields.classNamed("org.apache.kafka.connect.util.KafkaBasedLog"));
        Fields.set(log, "producer", Optional.empty());
        Fields.set(log, "consumer", Proxy.newProxyInstance(Consumer.class.getClassLoader(),
            new Class<?>[] {Consumer.class}, (proxy, called, arguments) -> null));
        Fields.set(log, "readLogEndOffsetCallbacks", new ArrayDeque<Callback<Void>>() {
            @Override
            public boolean add(Callback<Void> callback) {
                callback.onCompletion(null, null);
                return true;
            }
        });
        Object store = Stores.made(Fields.classNamed(Stores.PACKAGE + "KafkaOffsetBackingStore"));
        Fields.set(store, "data", new HashMap<>());
        Fields.set(store, "offsetLog", log);
        return store;
    }

    // --- small things ----------------------------------------------------------------------------

    private static Object proxy(String name, InvocationHandler handler) {
        Class<?> type = Fields.classNamed(Stores.PACKAGE + name);
        return Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, handler);
    }

    private static Method method(Class<?> type, String name) {
        try {
            Method method = type.getDeclaredMethod(name);
            method.setAccessible(true);
            return method;
        } catch (NoSuchMethodException missing) {
            return null;
        }
    }

    private static ConsumerRecord<byte[], byte[]> record(String topic, String key, String value) {
        return new ConsumerRecord<>(topic, 0, 0, key.getBytes(StandardCharsets.UTF_8),
            value.getBytes(StandardCharsets.UTF_8));
    }
}
