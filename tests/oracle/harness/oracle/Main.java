package oracle;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;

/**
 * Feeds logs to the stores of one Kafka release, and prints their state.
 *
 * <p>Standard input: chunks. A chunk is an int32 length and so many bytes, which hold several logs.
 * A log consists of:
 *
 * <ul>
 *   <li>int32 number of records
 *   <li>int32 number of records before the store has started
 *   <li>int32 number of batches, and the int32 size of each; without batches, each record is read
 *       alone
 *   <li>per record: int8 store (see {@link Log#STORES}), int64 log offset, key and value, each an
 *       int32 length (-1: null) and bytes
 * </ul>
 *
 * <p>Standard output: one line of JSON per log; nothing marks the end of a chunk. A chunk is read
 * whole before the first answer, so that no pipe can fill up both ways.
 */
public final class Main {
    /** The JVM's default stack on Linux, on which Kafka's log thread parses JSON. */
    private static final long STACK_BYTES = 1 << 20;

    private Main() {
    }

    public static void main(String[] arguments) throws InterruptedException {
        // As in a worker, but with a stack of a known size: deep nesting overflows it.
        Thread thread = new Thread(null, Main::serve, "oracle", STACK_BYTES);
        thread.start();
        thread.join();
    }

    private static void serve() {
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        DataInputStream questions = new DataInputStream(System.in);
        try {
            while (true) {
                byte[] chunk = new byte[questions.readInt()];
                questions.readFully(chunk);
                answer(new DataInputStream(new ByteArrayInputStream(chunk)), answers);
                answers.flush();
            }
        } catch (EOFException end) {
            answers.flush();
        } catch (IOException broken) {
            throw new UncheckedIOException(broken);
        }
    }

    private static void answer(DataInputStream chunk, PrintStream answers) throws IOException {
        StringBuilder line = new StringBuilder();
        while (chunk.available() > 0) {
            line.setLength(0);
            Json.write(line, new Log().read(chunk));
            answers.append(line.append('\n'));
        }
    }
}
