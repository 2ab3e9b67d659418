"""Report: one self-contained page of HTML about a fleet.

`fleet_facts` collects everything about one cluster, within `page_limits`. `connector_timelines` and
`offset_lines` follow its records, and `evidence_order` selects the records to show. The result,
`page_facts`, is complete: `sections` and `page` only write HTML (`controlplane.page`).
"""

from replay.report.fleet_facts import ReportTask
from replay.report.page import page
from replay.report.page_facts import ClusterFacts
from replay.report.page_limits import PageLimits

__all__ = ["ClusterFacts", "PageLimits", "ReportTask", "page"]
