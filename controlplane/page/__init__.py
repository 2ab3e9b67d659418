"""HTML helpers for pages: elements, charts over time, links to records."""
