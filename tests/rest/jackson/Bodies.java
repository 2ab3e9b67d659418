import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.lang.annotation.Annotation;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Type;
import java.util.Arrays;
import java.util.Base64;
import java.util.Map;

/**
 * Reads request bodies as a Connect worker of the release on the class path does: Jersey's Jackson provider, Kafka's
 * entities. One line in, "kind base64"; one line out, base64 of "OK", of "NO" and the message, or "-" where this
 * release has no such entity.
 */
public final class Bodies {
    private static final String ENTITIES = "org.apache.kafka.connect.runtime.rest.entities.";

    public Map<String, String> config;

    public static void main(String[] arguments) throws Exception {
        Object provider = first("com.fasterxml.jackson.jaxrs.json", "com.fasterxml.jackson.jakarta.rs.json",
                "JacksonJsonProvider").getConstructor().newInstance();
        Method read = Arrays.stream(provider.getClass().getMethods())
                .filter(method -> method.getName().equals("readFrom") && !method.isBridge()).findFirst().orElseThrow();
        Object json = first("javax.ws.rs.core", "jakarta.ws.rs.core", "MediaType")
                .getConstructor(String.class, String.class).newInstance("application", "json");
        Object headers = first("javax.ws.rs.core", "jakarta.ws.rs.core", "MultivaluedHashMap")
                .getConstructor().newInstance();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split(" ", -1);
            Type type = type(parts[0]);
            InputStream body = new Stream(Base64.getDecoder().decode(parts[1]));
            System.out.println(type == null ? "-" : encoded(answer(provider, read, type, json, headers, body)));
        }
    }

    private static String answer(Object provider, Method read, Type type, Object json, Object headers, InputStream body)
            throws IllegalAccessException {
        Class<?> raw = type instanceof Class ? (Class<?>) type : Map.class;
        try {
            read.invoke(provider, raw, type, new Annotation[0], json, headers, body);
            return "OK";
        } catch (InvocationTargetException failure) {
            return "NO" + failure.getCause().getMessage();
        }
    }

    private static Type type(String kind) throws NoSuchFieldException {
        try {
            switch (kind) {
                case "create":
                    return Class.forName(ENTITIES + "CreateConnectorRequest");
                case "offsets":
                    return Class.forName(ENTITIES + "ConnectorOffsets");
                default:
                    return Bodies.class.getField("config").getGenericType();
            }
        } catch (ClassNotFoundException older) {
            return null;
        }
    }

    private static Class<?> first(String one, String other, String name) throws ClassNotFoundException {
        try {
            return Class.forName(one + "." + name);
        } catch (ClassNotFoundException newer) {
            return Class.forName(other + "." + name);
        }
    }

    private static String encoded(String text) throws IOException {
        return Base64.getEncoder().encodeToString(text.getBytes("UTF-8"));
    }

    /** Messages of older releases name the class of the stream that is read. */
    static final class Stream extends ByteArrayInputStream {
        Stream(byte[] bytes) {
            super(bytes);
        }
    }
}
