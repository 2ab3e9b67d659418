package oracle;

import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.connect.util.Callback;

/**
 * The thread with which a worker reads a topic once it has started: `KafkaBasedLog.WorkThread` of
 * the release on the class path, over a consumer that hands out batches.
 */
final class LogThread {
    private static final Class<?> TYPE =
        Fields.classNamed("org.apache.kafka.connect.util.KafkaBasedLog");

    private final Object log = Fields.unmade(TYPE);
    private final Iterator<List<ConsumerRecord<byte[], byte[]>>> batches;

    LogThread(
        List<List<ConsumerRecord<byte[], byte[]>>> batches,
        Callback<ConsumerRecord<byte[], byte[]>> callback) {
        this.batches = batches.iterator();
        Fields.set(log, "topic", "topic");
        Fields.set(log, "consumedCallback", callback);
        Fields.set(log, "readLogEndOffsetCallbacks", new ArrayDeque<>());
        Fields.set(log, "consumer", Proxy.newProxyInstance(
            Consumer.class.getClassLoader(), new Class<?>[] {Consumer.class},
            (proxy, method, arguments) -> method.getName().equals("poll") ? poll() : null));
    }

    /** Reads all batches as `KafkaBasedLog#start` does; false: an exception left it. */
    boolean start() {
        try {
            Method poll = Arrays.stream(TYPE.getDeclaredMethods())
                .filter(one -> one.getName().equals("poll")).findFirst().orElseThrow();
            poll.setAccessible(true);
            // Newer releases have no parameter for a timeout.
            Object[] patience = poll.getParameterCount() == 0 ? new Object[0] : new Object[] {0L};
            while (batches.hasNext()) {
                poll.invoke(log, patience);
            }
            return true;
        } catch (InvocationTargetException thrown) {
            return false;
        } catch (IllegalAccessException error) {
            throw new AssertionError(error);
        }
    }

    /** Runs until all batches are read or the thread has ended itself. */
    void run() {
        try {
            Constructor<?> constructor = only(Class.forName(TYPE.getName() + "$WorkThread"), 1);
            // Not with start(): this thread has a stack of a known size.
            ((Thread) constructor.newInstance(log)).run();
        } catch (ReflectiveOperationException error) {
            throw new AssertionError(error);
        }
    }

    private Object poll() throws ReflectiveOperationException {
        if (!batches.hasNext()) {
            Fields.set(log, "stopRequested", true);
            throw new WakeupException();
        }
        Map<TopicPartition, List<ConsumerRecord<byte[], byte[]>>> records =
            Map.of(new TopicPartition("topic", 0), batches.next());
        return only(ConsumerRecords.class, 1).newInstance(records);
    }

    private static Constructor<?> only(Class<?> type, int parameters) {
        Constructor<?> constructor = Arrays.stream(type.getDeclaredConstructors())
            .filter(one -> one.getParameterCount() == parameters).findFirst().orElseThrow();
        constructor.setAccessible(true);
        return constructor;
    }
}
