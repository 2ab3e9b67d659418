"""A report: one page of HTML about a fleet, which asks nobody for anything.

`limits` say how much is told at most, `facts` are what a page is made of, `following` and `moving`
draw them from the records as they go by, `naming` says which of these are shown as evidence,
`looking` puts all of one cluster together. From there on nothing is read any more: `html` writes
elements, `drawing`, `plot` and `axis` pictures, `sections` the parts of the page, `page` the whole.
"""

from replay.report.facts import Looked
from replay.report.limits import Limits
from replay.report.looking import Look
from replay.report.page import page

__all__ = ["Limits", "Look", "Looked", "page"]
