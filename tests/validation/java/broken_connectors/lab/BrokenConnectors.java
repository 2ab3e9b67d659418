package lab;

/** Sink connectors that no worker can make. Before 3.6, a worker that finds one does not start. */
public final class BrokenConnectors {
    private BrokenConnectors() {
    }

    public static class Demanding extends Connectors.Abstract {
        public Demanding(String wanted) {
        }
    }

    public static class Private extends Connectors.Abstract {
        private Private() {
        }
    }

    public static class Throwing extends Connectors.Abstract {
        public Throwing() {
            throw new IllegalStateException("no luck");
        }
    }
}
