package lab;

import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.sink.SinkConnector;

/** Sink connectors. A worker can make one of them. */
public final class Connectors {
    private Connectors() {
    }

    public abstract static class Abstract extends SinkConnector {
        public String version() {
            return "1";
        }

        public ConfigDef config() {
            return new ConfigDef();
        }

        public void start(Map<String, String> config) {
        }

        public void stop() {
        }

        public Class<? extends Task> taskClass() {
            return null;
        }

        public List<Map<String, String>> taskConfigs(int most) {
            return Collections.emptyList();
        }
    }

    public static class Sound extends Abstract {
    }
}
