"""Arrow and numpy: what is left of many records if only the last of a key counts.

Nothing here opens a file or knows Spark. A kernel gets the rows of one partition in the order of
their offsets, as runs whose columns are read when they are asked for, and asks for as few as it
can: values come last, and only those of winners are copied. All backends run the same ones.
"""
