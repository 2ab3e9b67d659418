import org.apache.kafka.common.protocol.Errors;

/** Prints code and name of every error of Kafka's protocol, one a line. */
public final class ErrorNames {
    public static void main(String[] arguments) {
        for (Errors error : Errors.values()) {
            System.out.println(error.code() + " " + error.name());
        }
    }
}
