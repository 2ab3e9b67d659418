import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.sourcelab.kafka.connect.apiclient.Configuration;
import org.sourcelab.kafka.connect.apiclient.KafkaConnectClient;
import org.sourcelab.kafka.connect.apiclient.request.dto.ConnectorPluginConfigDefinition;
import org.sourcelab.kafka.connect.apiclient.request.dto.NewConnectorDefinition;
import org.sourcelab.kafka.connect.apiclient.request.post.PostConnectorRestart;

/**
 * Calls methods of the client library, on the worker whose URL is the argument.
 *
 * <p>Standard input has a line of JSON for each call: the method, and a connector's name and
 * config. Standard output has a line of JSON for each call: the result or the exception.
 */
public final class Client {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final KafkaConnectClient client;

    private Client(String url) {
        client = new KafkaConnectClient(new Configuration(url));
    }

    public static void main(String[] arguments) throws Exception {
        Client client = new Client(arguments[0]);
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(JSON.writeValueAsString(client.answer(JSON.readTree(line))));
        }
    }

    private ObjectNode answer(JsonNode call) {
        ObjectNode answer = JSON.createObjectNode();
        try {
            String name = call.path("name").asText();
            Map<String, String> config = new HashMap<>();
            call.path("config").fields()
                    .forEachRemaining(one -> config.put(one.getKey(), one.getValue().asText()));
            return answer.set("returned", JSON.valueToTree(
                    returned(call.path("method").asText(), name, config)));
        } catch (RuntimeException failure) {
            answer.put("thrown", failure.getClass().getSimpleName());
            return answer.put("message", failure.getMessage());
        }
    }

    private Object returned(String method, String name, Map<String, String> config) {
        switch (method) {
            case "getConnectServerVersion": return client.getConnectServerVersion();
            case "getConnectors": return client.getConnectors();
            case "getConnectorsWithAllExpandedMetadata":
                return client.getConnectorsWithAllExpandedMetadata();
            case "getConnector": return client.getConnector(name);
            case "getConnectorConfig": return client.getConnectorConfig(name);
            case "getConnectorStatus": return client.getConnectorStatus(name);
            case "getConnectorTopics": return client.getConnectorTopics(name);
            case "resetConnectorTopics": return client.resetConnectorTopics(name);
            case "addConnector":
                return client.addConnector(new NewConnectorDefinition(name, config));
            case "updateConnectorConfig": return client.updateConnectorConfig(name, config);
            case "restartConnector": return client.restartConnector(name);
            case "restartConnectorAndTasks":
                return client.restartConnector(
                        new PostConnectorRestart(name).withIncludeTasks(true));
            case "pauseConnector": return client.pauseConnector(name);
            case "stopConnector": return client.stopConnector(name);
            case "resumeConnector": return client.resumeConnector(name);
            case "deleteConnector": return client.deleteConnector(name);
            case "getConnectorTasks": return client.getConnectorTasks(name);
            case "getConnectorTaskStatus": return client.getConnectorTaskStatus(name, 0);
            case "restartConnectorTask": return client.restartConnectorTask(name, 0);
            case "getConnectorPlugins": return client.getConnectorPlugins();
            case "validateConnectorPluginConfig":
                return client.validateConnectorPluginConfig(
                        new ConnectorPluginConfigDefinition(name, config));
            default: throw new IllegalArgumentException(method);
        }
    }
}
