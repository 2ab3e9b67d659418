"""Connect's HTTP surface: `reads` answers from a state, `errors` knows the status codes."""
