package oracle;

import java.io.DataInputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.KafkaException;
import org.slf4j.impl.Complaints;

/** One log: three fresh stores, fed record by record. */
final class Log {
    /** The stores by the number that a record carries. */
    static final String[] STORES = {"config", "offsets", "status"};

    private final List<Object> calls = new ArrayList<>();
    private final ConfigStore config = new ConfigStore(calls);
    private final OffsetStore offsets = new OffsetStore();
    private final StatusStore status = new StatusStore();

    /** Feeds all records and says what became of each, and of the stores. */
    Map<String, Object> read(DataInputStream in) throws IOException {
        int count = in.readInt();
        int startup = in.readInt();
        List<Object> fates = new ArrayList<>(count);
        for (int number = 0; number < count; number++) {
            config.setStarted(number >= startup);
            fates.add(feed(in.readByte(), in.readLong(), bytes(in), bytes(in)));
        }
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("records", fates);
        answer.put("config", config.snapshot());
        answer.put("offsets", offsets.snapshot());
        answer.put("status", status.snapshot());
        return answer;
    }

    /** Null if nothing is to be told: no exception, no complaint, no call. */
    private Object feed(int store, long offset, byte[] key, byte[] value) {
        Complaints.forget();
        calls.clear();
        Throwable thrown = null;
        try {
            feed(store, new ConsumerRecord<>(STORES[store], 0, offset, key, value));
        } catch (Throwable error) {
            thrown = Fields.cause(error);
        }
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

    private void feed(int store, ConsumerRecord<byte[], byte[]> record) {
        switch (store) {
            case 0 -> config.read(record);
            case 1 -> offsets.read(record);
            default -> status.read(record);
        }
    }

    private static byte[] bytes(DataInputStream in) throws IOException {
        int length = in.readInt();
        return length < 0 ? null : in.readNBytes(length);
    }
}
