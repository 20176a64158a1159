"""The formats of strings that are held, as regexes over characters that JSON need not escape.

Each is a subset of what its standard allows, and most are all of it.
"""

from __future__ import annotations

import string
from typing import NamedTuple

from sglang_lite.runtime.grammar.codepoints import class_of, of


class Format(NamedTuple):
    """A format, and how many characters it has."""

    regex: str
    shortest: int
    longest: int | None = None


_DIGIT, _HEX = "[0-9]", "[0-9A-Fa-f]"

# The year 0 is left out: Python's dates begin with 1.
_YEAR = "(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
_LEAP = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_MONTH_AND_DAY = (
    "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
)
_DATE = f"(?:{_YEAR}-{_MONTH_AND_DAY}|{_LEAP}-02-29)"
_HOUR, _SIXTY = "(?:[01][0-9]|2[0-3])", "[0-5][0-9]"
_TIME = rf"{_HOUR}:{_SIXTY}:{_SIXTY}(?:\.[0-9]{{1,9}})?(?:Z|[+-]{_HOUR}:{_SIXTY})"

_CLOCK = "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
_DAYS = "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"
_DURATION = f"P(?:[0-9]+W|{_DAYS}(?:{_CLOCK})?|{_CLOCK})"

_UUID = f"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"

_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = rf"{_BYTE}(?:\.{_BYTE}){{3}}"
_GROUP = f"{_HEX}{{1,4}}"


def _ipv6() -> str:
    """Eight groups, the last two perhaps an IPv4 address, one run of them perhaps left out."""
    options = [f"(?:{_GROUP}:){{7}}{_GROUP}", f"(?:{_GROUP}:){{6}}{_IPV4}"]
    for before in range(8):
        head = f"{_GROUP}(?::{_GROUP}){{{before - 1}}}" if before else ""
        after = 7 - before
        tails = [f"(?:{_GROUP}(?::{_GROUP}){{0,{after - 1}}})?"] if after else [""]
        if after >= 2:
            tails.append(f"(?:{_GROUP}:){{0,{after - 2}}}{_IPV4}")
        options += [f"{head}::{tail}" for tail in tails]
    return f"(?:{'|'.join(options)})"


_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ATOM = "[A-Za-z0-9_%+-]+"
_EMAIL = rf"{_ATOM}(?:\.{_ATOM})*@(?:{_LABEL}\.)+[A-Za-z]{{2,}}"

_PLAIN = string.ascii_letters + string.digits + "._~-" + "!$&'()*+,;="
_PERCENT = f"%{_HEX}{{2}}"


def _uri_characters(more: str) -> str:
    """One character of a URI: unreserved, a sub-delimiter, one of `more`, or a percent-encoded."""
    return f"(?:{class_of(of(_PLAIN + more))}|{_PERCENT})"


_PATH, _QUERY = _uri_characters(":@"), _uri_characters(":@/?")
_HOST = rf"(?:\[{_ipv6()}\]|{_uri_characters('')}*)"
_AUTHORITY = f"(?:{_uri_characters(':')}*@)?{_HOST}(?::[0-9]*)?"
_ROOTED = f"/(?:{_PATH}+(?:/{_PATH}*)*)?"
_HIERARCHY = f"(?://{_AUTHORITY}(?:/{_PATH}*)*|{_ROOTED}|{_PATH}+(?:/{_PATH}*)*|)"
_URI = rf"[A-Za-z][A-Za-z0-9+.-]*:{_HIERARCHY}(?:\?{_QUERY}*)?(?:#{_QUERY}*)?"

_STANDARD = frozenset({
    "date", "time", "date-time", "duration", "email", "idn-email", "hostname", "idn-hostname",
    "ipv4", "ipv6", "uuid", "uri", "iri", "uri-reference", "iri-reference", "uri-template",
    "json-pointer", "relative-json-pointer", "regex",
})  # fmt: skip
FORMATS: dict[str, Format] = {
    "date": Format(_DATE, 10, 10),
    "time": Format(_TIME, 9, 24),
    "date-time": Format(f"{_DATE}T{_TIME}", 20, 35),
    "duration": Format(_DURATION, 3),
    "uuid": Format(_UUID, 36, 36),
    "ipv4": Format(_IPV4, 7, 15),
    "ipv6": Format(_ipv6(), 2, 45),
    "email": Format(_EMAIL, 6),
    "uri": Format(_URI, 2),
}


def is_standard(name: object) -> bool:
    """Whether JSON Schema defines this format, for strings.

    Any other name says nothing, as the specification has it.
    """
    return isinstance(name, str) and name in _STANDARD
