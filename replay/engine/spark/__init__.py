"""The engine in Spark: session, jobs, tasks and the data that tasks exchange."""
