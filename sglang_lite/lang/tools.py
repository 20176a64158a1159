"""Functions that a model may call: their arguments as a schema, and a loop around their results."""

from __future__ import annotations

import asyncio
import inspect
import json
import typing
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from time import perf_counter
from typing import Any, NamedTuple

from sglang_lite.errors import InvalidRequest
from sglang_lite.lang.outputs import Form, form_of_schema

ANSWER = "answer"  # what a model calls in place of a tool once it knows
MOST_STEPS = 8


@dataclass(eq=False)
class Tool:
    """A function with its arguments' schema.

    Raises:
        InvalidRequest: an argument has no type, or one that JSON cannot say.
    """

    function: Callable[..., Any]
    name: str = field(init=False)
    description: str = field(init=False)
    seconds: float = field(init=False, default=0.0)  # that a call takes, on the mean
    calls: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        if not hasattr(self.function, "__name__"):
            message = f"`tools` are functions with a name, got {self.function!r}."
            raise InvalidRequest(message, param="tools")
        self.name = self.function.__name__
        self.description = inspect.getdoc(self.function) or ""
        self._model = _model_of(self.function)
        self.schema = self._model.model_json_schema()

    def arguments(self, given: Any) -> dict[str, Any]:
        """The function's arguments, of its types; ValueError if they are not."""
        model = self._model.model_validate(given)
        return {name: getattr(model, name) for name in type(model).model_fields}

    def took(self, seconds: float) -> None:
        self.calls += 1
        self.seconds += (seconds - self.seconds) / self.calls


class ToolCall(NamedTuple):
    """What a model wants called."""

    name: str
    arguments: dict[str, Any]
    tool: Tool

    def run(self) -> Any:
        """Call the function; of a coroutine function, something to await."""
        return self.tool.function(**self.arguments)


def tools_of(functions: Sequence[Callable[..., Any] | Tool]) -> dict[str, Tool]:
    """Name -> tool.

    Raises:
        InvalidRequest: there is none, or two have one name.
    """
    if not isinstance(functions, (list, tuple)):
        raise InvalidRequest(f"`tools` is a list of functions, not {functions!r}.", param="tools")
    made = [each if isinstance(each, Tool) else _tool(each) for each in functions]
    named = {tool.name: tool for tool in made}
    if not made or len(named) < len(made):
        raise InvalidRequest(
            "`tools` needs one or more functions, each with a name of its own.", param="tools"
        )
    return named


def form_of_tools(tools: dict[str, Tool]) -> Form:
    """JSON that names one of `tools` and has its arguments; its value is a `ToolCall`."""
    calls: list[dict[str, Any]] = []
    definitions: dict[str, Any] = {}
    for tool in tools.values():
        arguments = {key: value for key, value in tool.schema.items() if key != "$defs"}
        definitions |= tool.schema.get("$defs", {})
        calls.append({
            "type": "object",
            "properties": {"name": {"const": tool.name}, "arguments": arguments},
            "required": ["name", "arguments"],
            "additionalProperties": False,
        })  # fmt: skip
    schema = calls[0] if len(calls) == 1 else {"anyOf": calls}

    def read(said: Any) -> ToolCall:
        tool = tools[said["name"]]
        return ToolCall(tool.name, tool.arguments(said["arguments"]), tool)

    whole = {**schema, "$defs": definitions} if definitions else schema
    return form_of_schema(whole, read, ToolCall)


def describe(functions: Sequence[Callable[..., Any] | Tool]) -> str:
    """What to tell a model about its tools, a line of JSON each."""
    lines = [
        json.dumps({"name": t.name, "description": t.description, "arguments": t.schema})
        for t in tools_of(functions).values()
    ]
    return "\n".join(lines)


# -------------------------------------------------------------- the loop


class Read(NamedTuple):
    """The loop wants a variable's value."""

    name: str


class Call(NamedTuple):
    """The loop wants a tool called; it is given the text of the result."""

    call: ToolCall


Loop = Generator[Read | Call, Any, str]


def loop(
    append: Callable[[Any], None],
    functions: Sequence[Callable[..., Any] | Tool],
    name: str,
    most_steps: int,
    sampling: dict[str, Any],
) -> Loop:
    """Turns of an assistant that calls tools until it answers, for any way of waiting.

    Raises:
        InvalidRequest: `most_steps` is not at least 1.
        RuntimeError: there is no answer after `most_steps` turns.
    """
    from sglang_lite.lang.expressions import gen, role  # they know this module

    if most_steps < 1:
        raise InvalidRequest(f"`max_steps` is at least 1, got {most_steps}.", param="max_steps")
    tools = tools_of([*functions, _answer])
    for step in range(most_steps):
        variable = f"{name}_call_{step}"
        append(role("assistant", gen(variable, tools=[*tools.values()], **sampling)))
        call = yield Read(variable)
        if call.name == ANSWER:
            return str(call.arguments[ANSWER])
        result = yield Call(call)
        append(role("tool", result))
    raise RuntimeError(
        f"no answer after {most_steps} steps (max_steps={most_steps}); the tools called are in "
        f"the variables {name}_call_0 to {name}_call_{most_steps - 1}"
    )


def run_here(call: ToolCall, wait: Callable[[Any], Any]) -> str:
    """The text of a tool's result, or of its error: the model is told either."""
    began = perf_counter()
    try:
        made = call.run()
        return _shown(wait(made) if inspect.isawaitable(made) else made)
    except Exception as error:  # noqa: BLE001 - whatever a tool raises
        return f"error: {type(error).__name__}: {error}"
    finally:
        call.tool.took(perf_counter() - began)


async def run_awaited(call: ToolCall) -> str:
    """The same in an event loop; what is no coroutine function runs in a thread."""
    began = perf_counter()
    try:
        if inspect.iscoroutinefunction(call.tool.function):
            return _shown(await call.run())
        return _shown(await asyncio.to_thread(call.run))
    except Exception as error:  # noqa: BLE001 - whatever a tool raises
        return f"error: {type(error).__name__}: {error}"
    finally:
        call.tool.took(perf_counter() - began)


def _shown(result: Any) -> str:
    return result if isinstance(result, str) else json.dumps(result, default=str)


def _answer(answer: str) -> None:
    """Say the final answer."""


_answer.__name__ = ANSWER


@lru_cache(256)
def _tool(function: Callable[..., Any]) -> Tool:
    """One tool for a function, so that its mean time is known the next time."""
    return Tool(function)


def _model_of(function: Callable[..., Any]) -> Any:
    from pydantic import ConfigDict, create_model
    from pydantic.errors import PydanticUserError

    hints = typing.get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            raise InvalidRequest(
                f"{function.__name__}() takes any number of arguments (*{name}), which no schema "
                "can say; give each a name and a type.",
                param="tools",
            )
        if name not in hints:
            raise InvalidRequest(
                f"argument {name!r} of {function.__name__}() has no type; annotate it, so that a "
                "model can be held to it.",
                param="tools",
            )
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[name] = (hints[name], default)
    try:
        return create_model(
            function.__name__,
            __config__=ConfigDict(extra="forbid", protected_namespaces=()),
            **fields,
        )
    except PydanticUserError as error:
        raise InvalidRequest(
            f"the arguments of {function.__name__}() have no JSON schema: {error.message}",
            param="tools",
        ) from error
