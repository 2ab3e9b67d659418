"""What held from when until when: one pass over the records of an archive, for all releases.

`telling` goes over records in the one order, a few at a time. `together` lets as few folds as
possible go over them: releases part only where they disagree about a record. `follower` sees what
each record changes in what is known of a connector, `intervals` are what comes of that; `digests`
are what every release knows after every record of the config topic, as one number each.
"""
