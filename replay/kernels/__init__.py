"""Kernels in Arrow and numpy: reduce many records to those that count.

Kernels open no files and do not know Spark. A kernel gets the rows of one partition in the order of
their offsets. The rows are runs whose columns are read on demand. It reads as few columns as
possible: values come last, and only the winners' values are copied. All engines run the same
kernels.
"""
