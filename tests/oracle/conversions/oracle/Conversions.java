package oracle;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Date;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.data.ConnectSchema;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.SchemaProjector;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;

/**
 * Lets Kafka's converters, validation and projection answer questions.
 *
 * <p>Standard input: one question in JSON per line. Standard output: one answer per line. A schema is
 * an object with the names of its getters; a value is an array of its kind and its content:
 * {@code ["i8","7"]}, {@code ["f64","<bits in hex>"]}, {@code ["map",[[key,value],…]]}.
 */
public final class Conversions {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, Object> CONVERTERS = new HashMap<>();

    private Conversions() {
    }

    public static void main(String[] arguments) throws IOException {
        JSON.getFactory().enable(JsonGenerator.Feature.ESCAPE_NON_ASCII);
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
            switch (question.get("op").textValue()) {
                case "encode" -> answer.set("bytes", shown(encode(question)));
                case "decode" -> write(answer, decode(question));
                case "validate" -> {
                    Schema schema = schema(question.get("schema"));
                    ConnectSchema.validateValue(schema, value(question.get("value")));
                    answer.put("valid", true);
                }
                case "project" -> {
                    Schema source = schema(question.get("schema"));
                    Schema target = schema(question.get("target"));
                    Object value = value(question.get("value"));
                    answer.set("value", describe(SchemaProjector.project(source, value, target)));
                }
                default -> throw new AssertionError(question);
            }
        } catch (Exception | StackOverflowError thrown) {
            answer.removeAll();
            answer.put("error", thrown.getClass().getSimpleName());
            answer.put("message", thrown.getMessage());
        }
        return answer;
    }

    private static byte[] encode(JsonNode question) throws Exception {
        Schema schema = schema(question.get("schema"));
        Object value = value(question.get("value"));
        Object converter = converter(question);
        return converter instanceof Converter values
            ? values.fromConnectData("t", schema, value)
            : ((HeaderConverter) converter).fromConnectHeader("t", "h", schema, value);
    }

    private static SchemaAndValue decode(JsonNode question) throws Exception {
        byte[] bytes = bytes(question.get("bytes"));
        Object converter = converter(question);
        return converter instanceof Converter values
            ? values.toConnectData("t", bytes)
            : ((HeaderConverter) converter).toConnectHeader("t", "h", bytes);
    }

    private static void write(ObjectNode answer, SchemaAndValue pair) {
        // A header converter returns null for the text "null"; ConnectHeader makes it NULL.
        SchemaAndValue present = pair == null ? SchemaAndValue.NULL : pair;
        answer.set("schema", describe(present.schema()));
        answer.set("value", describe(present.value()));
    }

    private static Object converter(JsonNode question) throws Exception {
        String key = question.get("class").textValue() + question.get("config");
        Object converter = CONVERTERS.get(key);
        if (converter == null) {
            converter = Class.forName(question.get("class").textValue()).getConstructor().newInstance();
            Map<String, Object> config = new HashMap<>();
            question.get("config").fields().forEachRemaining(
                entry -> config.put(entry.getKey(), entry.getValue().textValue()));
            if (converter instanceof Converter values) {
                values.configure(config, false);
            }
            CONVERTERS.put(key, converter);
        }
        return converter;
    }

    // --- schemas --------------------------------------------------------------------------------

    private static Schema schema(JsonNode node) {
        if (node.isNull()) {
            return null;
        }
        Schema.Type type = Schema.Type.valueOf(node.get("type").textValue());
        SchemaBuilder builder = switch (type) {
            case ARRAY -> SchemaBuilder.array(schema(node.get("value")));
            case MAP -> SchemaBuilder.map(schema(node.get("key")), schema(node.get("value")));
            default -> SchemaBuilder.type(type);
        };
        node.path("fields").forEach(field ->
            builder.field(field.get(0).textValue(), schema(field.get(1))));
        if (node.get("optional").booleanValue()) {
            builder.optional();
        }
        if (node.has("name")) {
            builder.name(node.get("name").textValue());
        }
        if (node.has("version")) {
            builder.version(node.get("version").intValue());
        }
        if (node.has("doc")) {
            builder.doc(node.get("doc").textValue());
        }
        node.path("parameters").fields().forEachRemaining(
            entry -> builder.parameter(entry.getKey(), entry.getValue().textValue()));
        if (node.has("default")) {
            builder.defaultValue(value(node.get("default")));
        }
        return builder.build();
    }

    private static JsonNode describe(Schema schema) {
        if (schema == null) {
            return JSON.nullNode();
        }
        ObjectNode node = JSON.createObjectNode();
        node.put("type", schema.type().name());
        node.put("optional", schema.isOptional());
        if (schema.name() != null) {
            node.put("name", schema.name());
        }
        if (schema.version() != null) {
            node.put("version", schema.version());
        }
        if (schema.doc() != null) {
            node.put("doc", schema.doc());
        }
        if (schema.parameters() != null) {
            schema.parameters().forEach(node.putObject("parameters")::put);
        }
        if (schema.defaultValue() != null) {
            node.set("default", describe(schema.defaultValue()));
        }
        if (schema.type() == Schema.Type.STRUCT) {
            ArrayNode fields = node.putArray("fields");
            for (Field field : schema.fields()) {
                fields.addArray().add(field.name()).add(describe(field.schema()));
            }
        }
        if (schema.type() == Schema.Type.MAP) {
            node.set("key", describe(schema.keySchema()));
        }
        if (schema.type() == Schema.Type.MAP || schema.type() == Schema.Type.ARRAY) {
            node.set("value", describe(schema.valueSchema()));
        }
        return node;
    }

    // --- values ---------------------------------------------------------------------------------

    private static Object value(JsonNode node) {
        String text = node.path(1).asText();
        return switch (node.get(0).textValue()) {
            case "null" -> null;
            case "i8" -> Byte.valueOf(text);
            case "i16" -> Short.valueOf(text);
            case "i32" -> Integer.valueOf(text);
            case "i64" -> Long.valueOf(text);
            case "big" -> new BigInteger(text);
            case "f32" -> (float) Double.longBitsToDouble(Long.parseUnsignedLong(text, 16));
            case "f64" -> Double.longBitsToDouble(Long.parseUnsignedLong(text, 16));
            case "boolean" -> node.get(1).booleanValue();
            case "string" -> text;
            case "bytes" -> bytes(node.get(1));
            case "decimal" -> new BigDecimal(new BigInteger(text), node.get(2).intValue());
            case "date" -> new Date(Long.parseLong(text));
            case "list" -> {
                List<Object> list = new ArrayList<>();
                node.get(1).forEach(element -> list.add(value(element)));
                yield list;
            }
            case "map" -> {
                Map<Object, Object> map = new LinkedHashMap<>();
                node.get(1).forEach(pair -> map.put(value(pair.get(0)), value(pair.get(1))));
                yield map;
            }
            case "struct" -> struct(schema(node.get(1)), node.get(2));
            default -> throw new AssertionError(node);
        };
    }

    private static Struct struct(Schema schema, JsonNode values) {
        Struct struct = new Struct(schema);
        for (Field field : schema.fields()) {
            Object value = value(values.get(field.index()));
            if (value != null) {
                struct.put(field, value);
            }
        }
        return struct;
    }

    private static JsonNode describe(Object value) {
        ArrayNode node = JSON.createArrayNode();
        if (value == null) {
            node.add("null");
        } else if (value instanceof Float || value instanceof Double) {
            long bits = Double.doubleToLongBits(((Number) value).doubleValue());
            node.add("real").add(HexFormat.of().toHexDigits(bits));
        } else if (value instanceof BigDecimal decimal) {
            node.add("decimal").add(decimal.unscaledValue().toString()).add(decimal.scale());
        } else if (value instanceof Number) {
            node.add("integer").add(value.toString());
        } else if (value instanceof Boolean truth) {
            node.add("boolean").add(truth);
        } else if (value instanceof String text) {
            node.add("string").add(text);
        } else if (value instanceof byte[] bytes) {
            node.add("bytes").add(shown(bytes));
        } else if (value instanceof ByteBuffer buffer) {
            node.add("bytes").add(shown(buffer.array()));
        } else if (value instanceof Date date) {
            node.add("date").add(Long.toString(date.getTime()));
        } else if (value instanceof List<?> list) {
            ArrayNode elements = node.add("list").addArray();
            list.forEach(element -> elements.add(describe(element)));
        } else if (value instanceof Map<?, ?> map) {
            ArrayNode pairs = node.add("map").addArray();
            map.forEach((key, member) -> pairs.addArray().add(describe(key)).add(describe(member)));
        } else {
            Struct struct = (Struct) value;
            ArrayNode values = node.add("struct").add(describe(struct.schema())).addArray();
            for (Field field : struct.schema().fields()) {
                values.add(describe(struct.getWithoutDefault(field.name())));
            }
        }
        return node;
    }

    private static byte[] bytes(JsonNode node) {
        return node.isNull() ? null : HexFormat.of().parseHex(node.textValue());
    }

    private static JsonNode shown(byte[] bytes) {
        return bytes == null ? JSON.nullNode() : JSON.getNodeFactory().textNode(HexFormat.of().formatHex(bytes));
    }
}
