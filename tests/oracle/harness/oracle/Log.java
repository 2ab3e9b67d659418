package oracle;

import java.io.DataInputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.KafkaException;
import org.slf4j.impl.Complaints;

/** One log in fresh stores; offsets of the worker and of a connector have a store each. */
final class Log {
    /** The stores by the number that a record carries. */
    static final String[] STORES = {"config", "offsets", "status", "own"};

    private final List<Object> calls = new ArrayList<>();
    private final ConfigStore config = new ConfigStore(calls);
    private final OffsetStore offsets = new OffsetStore();
    private final OffsetStore own = new OffsetStore();
    private final StatusStore status = new StatusStore();
    /** An exception left the stores during start-up: the worker ends. */
    private boolean died;

    /** Feeds all records; returns the fate of each, and the state of the stores. */
    Map<String, Object> read(DataInputStream in) throws IOException {
        int count = in.readInt();
        int startup = in.readInt();
        int[] sizes = new int[in.readInt()];
        for (int number = 0; number < sizes.length; number++) {
            sizes[number] = in.readInt();
        }
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>(count);
        for (int number = 0; number < count; number++) {
            String store = STORES[in.readByte()];
            records.add(new ConsumerRecord<>(store, 0, in.readLong(), bytes(in), bytes(in)));
        }
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("records",
            sizes.length > 0 ? polled(records, startup, sizes) : each(records, startup));
        answer.put("died", died ? 1 : 0);
        answer.put("config", config.snapshot());
        answer.put("offsets", offsets.snapshot());
        answer.put("own", own.snapshot());
        answer.put("status", status.snapshot());
        return answer;
    }

    /** Feeds one record after the other, also after a failure. */
    private List<Object> each(List<ConsumerRecord<byte[], byte[]>> records, int startup) {
        List<Object> fates = new ArrayList<>(records.size());
        for (int number = 0; number < records.size(); number++) {
            config.setStarted(number >= startup);
            fates.add(feed(records.get(number)));
        }
        return fates;
    }

    /**
     * Feeds batches: those of the start-up as a worker reads them before it runs, the others in the
     * worker's log thread. An exception at start-up ends the worker.
     */
    private List<Object> polled(
        List<ConsumerRecord<byte[], byte[]>> records, int startup, int[] sizes) {
        List<List<ConsumerRecord<byte[], byte[]>>> early = new ArrayList<>();
        List<List<ConsumerRecord<byte[], byte[]>>> late = new ArrayList<>();
        int start = 0;
        for (int size : sizes) {
            (start < startup ? early : late).add(records.subList(start, start + size));
            start += size;
        }
        Object[] fates = new Object[records.size()];
        Arrays.fill(fates, "unread");
        config.setStarted(false);
        died = !new LogThread(early, (error, record) -> poll(records, record, fates)).start();
        if (!died) {
            config.setStarted(true);
            new LogThread(late, (error, record) -> poll(records, record, fates)).run();
        }
        return Arrays.asList(fates);
    }

    private void poll(
        List<ConsumerRecord<byte[], byte[]>> records,
        ConsumerRecord<byte[], byte[]> record,
        Object[] fates) {
        Throwable[] thrown = new Throwable[1];
        fates[records.indexOf(record)] = feed(record, thrown);
        if (thrown[0] != null) {
            throw Fields.raise(thrown[0]);
        }
    }

    private Object feed(ConsumerRecord<byte[], byte[]> record) {
        return feed(record, new Throwable[1]);
    }

    /** Null if there is no exception, no complaint and no call. */
    private Object feed(ConsumerRecord<byte[], byte[]> record, Throwable[] raised) {
        Complaints.forget();
        calls.clear();
        Throwable thrown = null;
        try {
            read(record);
        } catch (Throwable error) {
            thrown = Fields.cause(error);
        }
        raised[0] = thrown;
        if (thrown == null && Complaints.heard().isEmpty() && calls.isEmpty()) {
            return null;
        }
        return fate(thrown);
    }

    private Object fate(Throwable thrown) {
        Map<String, Object> fate = new LinkedHashMap<>();
        if (thrown != null) {
            fate.put("thrown", thrown.getClass().getSimpleName());
            // KafkaBasedLog#poll catches these, and only these.
            fate.put("caught", thrown instanceof KafkaException);
        }
        fate.put("complaints", List.copyOf(Complaints.heard()));
        fate.put("calls", List.copyOf(calls));
        return fate;
    }

    private void read(ConsumerRecord<byte[], byte[]> record) {
        switch (record.topic()) {
            case "config" -> config.read(record);
            case "offsets" -> offsets.read(record);
            case "own" -> own.read(record);
            default -> status.read(record);
        }
    }

    private static byte[] bytes(DataInputStream in) throws IOException {
        int length = in.readInt();
        return length < 0 ? null : in.readNBytes(length);
    }
}
