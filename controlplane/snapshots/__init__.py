"""Snapshots: what was folded of a log, kept beside it, so that starting reads only the rest.

A snapshot stands for the records of one topic before a cut, as one release reads them (`kind_of`).
Topics know nothing of each other, so each has snapshots of its own, at cuts of its own. Beginning
from one must give what reading everything gives. That holds

* if the records before the cut come before all others in the one order (`core.order`). What comes
  late, by a clock that is behind, breaks that. So a cut is made some time behind the latest record
  (`core.watermark`), and whoever begins from it looks whether a record came later still; if so,
  the topic is read whole.
* if no record before the cut was removed since: the log lets go of a topic's snapshots together
  with the first record that compaction or retention removes of it. There is no snapshot of what is
  not in the log any more.
* if the fold is the same: another release, isolation or version of the fold is another kind.

A snapshot that is damaged is passed over, as if it were not there. `finding` looks for the nearest
one, `keeping` makes them; `marks` finds by them where in the log a moment lies.
"""
