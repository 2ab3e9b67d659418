"""Command `replay` for which every cluster is very large: Spark folds offsets in buckets of keys.

Usage: python -m tests.replay.spark.bucketed_replay [WORD...]
"""

import runpy

from replay.engine import slices

BUCKETS = slices.LIMITS._replace(fold_rows=0, bucket_rows=7, slice_rows=6)
"""Limits by which every cluster counts as very large: offsets are folded in buckets of keys."""

if __name__ == "__main__":
    slices.LIMITS = BUCKETS  # other modules import the limits later, as defaults
    runpy.run_module("replay", run_name="__main__", alter_sys=True)
