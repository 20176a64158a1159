"""Regexes in Rust's syntax, as Python's `re` reads them, and texts that match them."""

from __future__ import annotations

import importlib
import re
import sys
from random import Random
from typing import Any

_parser: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
_SAFE = "abz09 _-.\u00e9\u4e2d"  # what a wide class gives, if it can: the same in every dialect


def compiled(regex: str) -> re.Pattern[str]:
    """Python's reading of a regex that was written for Rust."""
    return re.compile(re.sub(r"\\x\{([0-9A-F]+)\}", lambda found: f"\\U{found[1]:0>8}", regex))


def sample(regex: str, random: Random) -> str:
    """A text that matches a regex written for Rust."""
    return _sequence(_parser.parse(compiled(regex).pattern), random)


def _sequence(items: Any, random: Random) -> str:
    return "".join(_one(code.name, argument, random) for code, argument in items)


def _one(name: str, argument: Any, random: Random) -> str:
    if name == "LITERAL":
        return chr(argument)
    if name == "IN":
        return _member(argument, random)
    if name == "BRANCH":
        return _sequence(random.choice(argument[1]), random)
    if name == "SUBPATTERN":
        return _sequence(argument[3], random)
    if name == "MAX_REPEAT":
        low, high, body = argument
        times = random.randint(low, min(int(high), low + 2))
        return "".join(_sequence(body, random) for _ in range(times))
    raise AssertionError(f"{name} is not written by us")


def _member(items: Any, random: Random) -> str:
    code, argument = random.choice(items)
    if code.name == "LITERAL":
        return chr(argument)
    low, high = argument
    safe = [character for character in _SAFE if low <= ord(character) <= high]
    if high - low > 30 and safe:
        return random.choice(safe)
    return chr(random.randint(low, min(high, low + 30)))
