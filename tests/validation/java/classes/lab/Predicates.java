package lab;

import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** Predicates. A worker can make one of them. */
public final class Predicates {
    private Predicates() {
    }

    public abstract static class Abstract<R extends ConnectRecord<R>> implements Predicate<R> {
        public boolean test(R record) {
            return true;
        }

        public ConfigDef config() {
            return new ConfigDef();
        }

        public void configure(Map<String, ?> configs) {
        }

        public void close() {
        }
    }

    public static class Sound<R extends ConnectRecord<R>> extends Abstract<R> {
    }

    public static class Demanding<R extends ConnectRecord<R>> extends Abstract<R> {
        public Demanding(String wanted) {
        }
    }

    public static class Private<R extends ConnectRecord<R>> extends Abstract<R> {
        private Private() {
        }
    }

    public static class Throwing<R extends ConnectRecord<R>> extends Abstract<R> {
        public Throwing() {
            throw new IllegalStateException("no luck");
        }
    }
}
