package org.apache.kafka.connect.util.clusters;

import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.HttpURLConnection;
import java.net.ServerSocket;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;

/**
 * A process that serves Connect's REST API.
 *
 * <p>The program is the system property {@code worker.program}, one argument per line. Its last two
 * arguments are a file with the properties of the worker and an empty folder of its own. It is up
 * when it answers {@code GET /}, and ends at SIGTERM. One that ends before it is up has failed: it
 * is then not healthy, as tests of failing starts expect.
 */
final class WorkerProcess {
    private static final long START_TIMEOUT_MS = TimeUnit.SECONDS.toMillis(300);

    /** A Java worker that fails at its start waits a minute for its own threads. */
    private static final long STOP_TIMEOUT_S = 300;

    private static final long POLL_MS = 100;

    /** Running processes of clusters whose handles share one, by brokers and group. */
    private static final Map<String, WorkerProcess> CLUSTERS = new HashMap<>();

    private final String name;
    private final Process process;
    private final URI url;
    private int handles = 1;

    private WorkerProcess(String name, Process process, URI url) {
        this.name = name;
        this.process = process;
        this.url = url;
    }

    /** The running process of a cluster, or a new one. */
    static synchronized WorkerProcess ofCluster(String name, Map<String, String> properties) {
        String cluster = properties.get("bootstrap.servers") + " " + properties.get("group.id");
        WorkerProcess running = CLUSTERS.get(cluster);
        if (running != null && running.handles > 0 && running.process.isAlive()) {
            running.handles++;
            return running;
        }
        WorkerProcess started = start(name, properties);
        CLUSTERS.put(cluster, started);
        return started;
    }

    static WorkerProcess start(String name, Map<String, String> properties) {
        try {
            Path folder = Files.createTempDirectory(Path.of(System.getProperty("worker.folder")), name);
            URI url = URI.create("http://localhost:" + freePort() + "/");
            Properties own = new Properties();
            own.putAll(properties);
            own.setProperty("listeners", url.toString().replaceAll("/$", ""));
            Path file = folder.resolve("worker.properties");
            try (OutputStream out = Files.newOutputStream(file)) {
                own.store(out, null);
            }
            Process process = launched(folder, file);
            Runtime.getRuntime().addShutdownHook(new Thread(process::destroy));
            WorkerProcess worker = new WorkerProcess(name, process, url);
            worker.awaitStart();
            return worker;
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }

    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0)) {
            return socket.getLocalPort();
        }
    }

    private static Process launched(Path folder, Path file) throws IOException {
        List<String> command = new ArrayList<>(List.of(System.getProperty("worker.program").split("\n")));
        command.add(file.toString());
        command.add(folder.toString());
        File log = folder.resolve("worker.log").toFile();
        return new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(log).start();
    }

    private void awaitStart() {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(START_TIMEOUT_MS);
        while (process.isAlive() && !answers()) {
            if (System.nanoTime() > deadline) {
                process.destroyForcibly();
                throw new IllegalStateException(name + " did not start; see worker.log");
            }
            pause();
        }
    }

    private boolean answers() {
        try {
            HttpURLConnection connection = (HttpURLConnection) url.toURL().openConnection();
            return connection.getResponseCode() == HttpURLConnection.HTTP_OK;
        } catch (IOException notYet) {
            return false;
        }
    }

    private static void pause() {
        try {
            Thread.sleep(POLL_MS);
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    URI url() {
        return url;
    }

    /** Give up one handle; the last one ends the process. */
    void release() {
        synchronized (WorkerProcess.class) {
            handles--;
            if (handles == 0) {
                end();
            }
        }
    }

    private void end() {
        process.destroy();
        try {
            if (!process.waitFor(STOP_TIMEOUT_S, TimeUnit.SECONDS)) {
                process.destroyForcibly();
                throw new IllegalStateException(name + " did not end at SIGTERM");
            }
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }
}
