"""TLS of a listener and of a cluster's client; Java's key stores."""
