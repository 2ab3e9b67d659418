package org.apache.kafka.connect.util.clusters;

import java.net.URI;
import java.util.Map;
import java.util.concurrent.Future;

/**
 * A worker of Kafka's integration tests, as a process of any program.
 *
 * <p>Takes the place of Kafka's class of this name, which runs a worker within the JVM: it comes
 * first on the class path. {@link WorkerProcess} says how the program is started and stopped.
 *
 * <p>With the system property {@code worker.shared=true}, all handles of a cluster share one
 * process: it starts with the first handle, and stops with the last one.
 */
public class WorkerHandle {
    private final String name;
    private final WorkerProcess process;

    private WorkerHandle(String name, WorkerProcess process) {
        this.name = name;
        this.process = process;
    }

    public static WorkerHandle start(String name, Map<String, String> properties) {
        boolean shared = Boolean.getBoolean("worker.shared");
        return new WorkerHandle(
                name,
                shared ? WorkerProcess.ofCluster(name, properties) : WorkerProcess.start(name, properties));
    }

    public void stop() {
        process.release();
    }

    public URI url() {
        return process.url();
    }

    public URI adminUrl() {
        return process.url();
    }

    public Future<?> herderTask() {
        throw new UnsupportedOperationException("the herder is in another process");
    }

    public void requestTimeout(long timeoutMs) {
        throw new UnsupportedOperationException("time-outs are set in another process");
    }

    public void resetRequestTimeout() {
        throw new UnsupportedOperationException("time-outs are set in another process");
    }

    @Override
    public String toString() {
        return name + " at " + url();
    }
}
