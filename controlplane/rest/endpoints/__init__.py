"""Connect's REST endpoints: one table of endpoints, with a responder for each."""
