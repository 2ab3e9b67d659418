"""State projected from a log: loaded, followed as the log grows, and read at past moments.

- `loader` folds a log to its end, starting from snapshots (`snapshot_lookup`).
- `follower` reads the `followed_topics` as the log grows. `release_folds` holds a fold per release,
  and wakes callers that wait for a record.
- `change_feed` reports each change.
- `past_states` reads states at past moments, which `moment_search` finds in the log.
- `upkeep` maintains an embedded log: `snapshot_writer` makes snapshots, `retention` removes old
  records.
"""
