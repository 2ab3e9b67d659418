"""Who asked for what, as others have written it down: audit streams and access logs."""
