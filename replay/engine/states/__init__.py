"""States from reduced rows: folded, digested, written as rows."""
