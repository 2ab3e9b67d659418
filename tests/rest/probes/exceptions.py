"""Requests that we answer differently from the probe's workers, with reasons."""

from collections.abc import Iterable, Mapping

SLASHES = (
    "Kafka puts a name as it is into the leader's address when it passes a request on, and asks "
    "for another connector (rest-api.md, 12.1): nothing is passed on here"
)
HOPS = "there is no second worker: everything is done here, and nothing is passed on"
REBALANCE = "one run saw what it saw in the middle of a rebalance, or before a level was obeyed"
STANDALONE = "a standalone worker, which starts tasks before it answers and has words of its own"
STUCK = "there is no broker that could be stuck"
NOT_HTTP = "what is no HTTP/1.1 our server refuses, or takes, in words and ways of its own"
JAVA = "classes and loggers of a Java machine, which is not here"
PROTOCOL = "there is no group, whose older protocols let anybody speak for a worker"
PROVIDERS = "what a config provider would put in is not known here, and believed"
NO_BASE64 = "a header that is no Base64 proves nobody, and is no failure of ours"
TOPICS = "the topic held more: every world wrote to it"

EXCEPTIONS: Mapping[str, Iterable[int]] = {
    SLASHES: (
        *range(1754, 1759),
        *(1760, 1762, 1766, 1768),
        *range(1778, 1783),
        *range(1784, 1791),
        *(1792, 1838, 1840, 1841, 1843, 1844),
    ),
    HOPS: (
        *(1625, 1627, 1634, 1635, 1636, 1649, 1651, 1658, 1659, 1660, 1661, 1663),
        *(1670, 1671, 1672, 1686, 1704, 1712, 1718, 1724, 1734, 1735),
    ),
    REBALANCE: (
        *(1471, 1472, 1473, 1569, 1571, 1573, 1576, 1578, 1581, 1584),
        *(1586, 1588, 1590, 1591, 1593, 1596, 1598),
    ),
    STANDALONE: (
        *(1952, 1972, 1974, 1975, 1978, 1983, 1984, 1986, 1990, 1991, 1992, 1993),
        *(2008, 2020, 2024, 2028, 2030, 2031),
    ),
    STUCK: range(2132, 2142),
    NOT_HTTP: (7, 307, 310, 311, 313, 468, 849),
    JAVA: (1404, 1435, 1436, 1440, 1442, 1467, 1468, 1469, 1930, 2086),
    PROTOCOL: (1887, 1888, 1890, 1892, 1893, 1894, 1936, 1937, 1943),
    PROVIDERS: (1898, 1899, 1900, 1901, 1903, 1904),
    NO_BASE64: (2110, 2111, 2112, 2114, 2116, 2118),
    TOPICS: (1917,),
}
"""Row numbers by reason. A row whose answer has become equal must be removed."""

REASONS: Mapping[int, str] = {
    row: reason for reason, row_numbers in EXCEPTIONS.items() for row in row_numbers
}
