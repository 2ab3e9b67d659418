package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.file.FileStreamSourceTask;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTaskContext;
import org.apache.kafka.connect.storage.OffsetStorageReader;

/**
 * Reads growing files with Kafka's task.
 *
 * <p>Standard input: per line the pieces of a file in JSON, the size of the task's first buffer, and a
 * position. Standard output: per line the records, each a line and its position.
 */
public final class GrowingFiles {
    private static final ObjectMapper JSON = new ObjectMapper();

    private GrowingFiles() {
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        BufferedReader questions =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            answers.append(JSON.writeValueAsString(answer(JSON.readTree(line)))).append('\n');
        }
        answers.flush();
    }

    private static ArrayNode answer(JsonNode question) throws Exception {
        Constructor<FileStreamSourceTask> constructor =
            FileStreamSourceTask.class.getDeclaredConstructor(int.class);
        constructor.setAccessible(true);
        FileStreamSourceTask task = constructor.newInstance(question.get("buffer").intValue());
        task.initialize(context(question.get("position").longValue()));
        ArrayNode answer = JSON.createArrayNode();
        Path file = Files.createTempFile("lines", ".txt");
        try {
            task.start(Map.of("file", file.toString(), "topic", "t", "batch.size", "2000"));
            for (JsonNode piece : question.get("pieces")) {
                Files.writeString(file, piece.textValue(), StandardOpenOption.APPEND);
                List<SourceRecord> records = task.poll();
                if (records != null) {
                    for (SourceRecord record : records) {
                        Object position = record.sourceOffset().get("position");
                        answer.addArray().add((String) record.value()).add((Long) position);
                    }
                }
            }
        } finally {
            task.stop();
            Files.delete(file);
        }
        return answer;
    }

    private static SourceTaskContext context(long position) {
        OffsetStorageReader offsets = (OffsetStorageReader) Proxy.newProxyInstance(
            GrowingFiles.class.getClassLoader(), new Class<?>[] {OffsetStorageReader.class},
            (proxy, method, values) -> Map.of("position", position));
        return (SourceTaskContext) Proxy.newProxyInstance(
            GrowingFiles.class.getClassLoader(), new Class<?>[] {SourceTaskContext.class},
            (proxy, method, values) -> offsets);
    }
}
