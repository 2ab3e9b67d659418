"""The runtime's side of the code that authors write: calls, threads, checked answers."""
