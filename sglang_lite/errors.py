"""What can go wrong, and what the HTTP layer answers.

SglangLiteError
 ├─ InvalidRequest      400   the caller can fix it: `param` names the field at fault
 │   ├─ ModelNotFound   404   no such model here
 │   ├─ Unsupported     400   understood, and not available: names what is missing
 │   │   └─ UnsupportedGrammar   no engine holds this constraint exactly: names the reasons
 │   ├─ InvalidGrammar  400   not a regex, schema, choice list, grammar or tag list at all
 │   └─ GrammarTooLarge 400   over a limit, or over its time or memory: names the limit
 ├─ InvalidConfig        -    the operator can fix it: a flag, a file, a device
 │   └─ ModelFileError   -    weights or a tokenizer that cannot be read
 ├─ Overloaded          429   try again later
 ├─ RuntimeUnavailable  503   the runtime is gone, stopping or does not answer
 └─ EngineFailed        500   we must fix it
     └─ RequestFailed   500   this request broke (NaN logits, a failed launch); others go on

A message says what was wrong, the value, the limit and the remedy. Two more live where their
subject does: `lang.program.ProgramError` names the program's file and line.
"""

from __future__ import annotations


class SglangLiteError(Exception):
    """The root of every error this package raises on purpose."""

    status = 500
    kind = "server_error"


class InvalidRequest(SglangLiteError, ValueError):
    status = 400
    kind = "invalid_request_error"

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class ModelNotFound(InvalidRequest):
    status = 404


class Unsupported(InvalidRequest, NotImplementedError):
    """A field or argument that is understood and has no implementation behind it."""


class UnsupportedGrammar(Unsupported):
    """A constraint that no engine can hold exactly; it is never held loosely instead."""


class InvalidGrammar(InvalidRequest):
    """A constraint that is not well-formed."""


class GrammarTooLarge(InvalidRequest):
    """A constraint over a limit of size, time or memory; the message names the limit."""


class InvalidConfig(SglangLiteError, ValueError):
    """The runtime was asked to start with something it cannot start with."""


class ModelFileError(InvalidConfig):
    """A model file is missing, cut short or not what it says it is."""


class Overloaded(SglangLiteError):
    status = 429
    kind = "rate_limit_error"


class RuntimeUnavailable(SglangLiteError, ConnectionError):
    status = 503
    kind = "service_unavailable_error"


class EngineFailed(SglangLiteError, RuntimeError):
    status = 500


class RequestFailed(EngineFailed):
    """One request broke inside the runtime; its neighbours were not touched."""


def from_status(status: int, message: str, param: str | None = None) -> SglangLiteError:
    """The exception a client raises for a failure that arrived as (status, message)."""
    if status == 404:
        return ModelNotFound(message, param=param)
    if 400 <= status < 500 and status != 429:
        return InvalidRequest(message, param=param)
    by_status = {429: Overloaded, 503: RuntimeUnavailable}
    return by_status.get(status, RequestFailed)(message)
