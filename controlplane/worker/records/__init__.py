"""Records between a task and a data topic: transformations, converters, and their errors."""
