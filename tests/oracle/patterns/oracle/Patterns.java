package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

/**
 * Matches texts with {@link Pattern}.
 *
 * <p>Standard input: a pattern and its texts in JSON per line. Standard output: per line whether each
 * text matches as a whole, or the error.
 */
public final class Patterns {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Patterns() {
    }

    public static void main(String[] arguments) throws IOException {
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        BufferedReader questions =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            answers.append(JSON.writeValueAsString(answer(JSON.readTree(line)))).append('\n');
        }
        answers.flush();
    }

    private static ObjectNode answer(JsonNode question) {
        ObjectNode answer = JSON.createObjectNode();
        try {
            Pattern pattern = Pattern.compile(question.get("pattern").textValue());
            ArrayNode matches = answer.putArray("matches");
            question.get("texts").forEach(
                text -> matches.add(pattern.matcher(text.textValue()).matches()));
        } catch (PatternSyntaxException thrown) {
            answer.put("error", thrown.getDescription());
        } catch (RuntimeException | StackOverflowError thrown) {
            answer.removeAll();
            answer.put("error", thrown.getClass().getSimpleName());
        }
        return answer;
    }
}
