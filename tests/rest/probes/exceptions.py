"""Requests that we answer differently from the probe's workers, with reasons."""

from collections.abc import Iterable, Mapping

SLASHES = (
    "Kafka forwards a request to the leader with the name unescaped, and so names another "
    "connector; nothing is forwarded here"
)
HOPS = "there is no second worker: no request is forwarded"
REBALANCE = "one recording was made during a rebalance, or before a logger level took effect"
STANDALONE = "a standalone worker starts tasks before it answers, and has its own messages"
STUCK = "there is no broker that could be stuck"
NOT_HTTP = (
    "the request is no valid HTTP/1.1: our server may accept it, or refuse it with its own message"
)
JAVA = "the answer has classes or loggers of a JVM, and this process has none"
PROTOCOL = "there is no group here; older group protocols accept unsigned requests between workers"
PROVIDERS = "the value of a config provider is not known here, and is taken as valid"
NO_BASE64 = "Kafka answers 500 to a header that is no Base64; here the login is refused"
TOPICS = "the recorded topic also had the records of other worlds"

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
