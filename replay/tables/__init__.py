"""Tables for data engineers: documented schemas, and rows made of states and findings.

All texts are without secrets. A null means that a value is absent. Times are milliseconds since
1970 (UTC). The schemas are a contract: columns may be added at the end, and never change.
"""
