"""Java and Jackson as a Connect worker uses them: JSON, numbers, text, hash codes."""
