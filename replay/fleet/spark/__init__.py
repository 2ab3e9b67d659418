"""Fleet queries in Spark: lazy data frames, and folds of very large clusters in buckets of keys."""
