package lab;

import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;

/** Converters of keys, values and headers. A worker can make few of them. */
public final class Converters {
    private Converters() {
    }

    public abstract static class Abstract implements Converter, HeaderConverter {
        public ConfigDef config() {
            return null;
        }

        public void configure(Map<String, ?> configs, boolean isKey) {
        }

        public void configure(Map<String, ?> configs) {
        }

        public byte[] fromConnectData(String topic, Schema schema, Object value) {
            return null;
        }

        public SchemaAndValue toConnectData(String topic, byte[] value) {
            return null;
        }

        public byte[] fromConnectHeader(String topic, String key, Schema schema, Object value) {
            return null;
        }

        public SchemaAndValue toConnectHeader(String topic, String key, byte[] value) {
            return null;
        }

        public void close() {
        }
    }

    public static class Undefined extends Abstract {
    }

    public static class Sound extends Abstract {
        public ConfigDef config() {
            return new ConfigDef().define(
                "prop", ConfigDef.Type.BOOLEAN, ConfigDef.Importance.HIGH, "");
        }
    }

    public static class Demanding extends Abstract {
        public Demanding(String wanted) {
        }
    }

    public static class Private extends Abstract {
        private Private() {
        }
    }

    public static class Throwing extends Abstract {
        public Throwing() {
            throw new IllegalStateException("no luck");
        }
    }
}
