"""JSON by schema and by regular expression, thoughts apart from answers, what is not there."""

from __future__ import annotations

import json
import re
from enum import Enum

import pytest
from pydantic import BaseModel, Field

import sglang_lite as sgl
from sglang_lite.lang.ir import REGEX_BOOL, REGEX_FLOAT, REGEX_INT, REGEX_STR
from sglang_lite.testing import ScriptedBackend

CHARACTER = (
    r"""\{\n"""
    r"""    "name": "[\w\d\s]{1,16}",\n"""
    r"""    "house": "(north|south|east)",\n"""
    r"""    "wand": \{\n"""
    r"""        "length": [0-9]{1,2}\.[0-9]{0,2}\n"""
    r"""    \},\n"""
    r"""    "alive": "(Alive|Deceased)"\n"""
    r"""\}"""
)


class Weapon(str, Enum):
    sword = "sword"
    bow = "bow"


class Wizard(BaseModel):
    name: str = Field(max_length=8)
    age: int = Field(ge=0, le=999)
    weapon: Weapon


def test_a_whole_expression(runtime) -> None:
    @sgl.function
    def character(s, name):
        s += sgl.user(name + " is someone in a novel. Fill in the form.")
        s += sgl.assistant(sgl.gen("json_output", max_tokens=256, regex=CHARACTER))

    text = character("Emma")["json_output"]
    assert re.fullmatch(CHARACTER, text)
    assert text.startswith('{\n    "name": "')


def test_a_schema_as_text(runtime) -> None:
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 6},
            "size": {"enum": ["small", "large"]},
        },
        "required": ["city", "size"],
        "additionalProperties": False,
    }

    @sgl.function
    def city(s):
        s += "Describe a city as JSON: "
        s += sgl.gen("city", max_tokens=200, json_schema=json.dumps(schema))

    value = json.loads(city.run(temperature=0)["city"])
    assert set(value) == {"city", "size"}
    assert value["size"] in ("small", "large")


def test_the_schema_of_a_model(runtime) -> None:
    @sgl.function
    def wizard(s):
        s += "A wizard in JSON.\n"
        s += sgl.gen(
            "character",
            max_tokens=200,
            temperature=0,
            json_schema=json.dumps(Wizard.model_json_schema()),
        )

    found = Wizard.model_validate_json(wizard.run()["character"])
    assert isinstance(found.weapon, Weapon)


def test_parts_of_an_object(runtime) -> None:
    @sgl.function
    def decode(s):
        with s.var_scope("json_output"):
            s += "{\n"
            s += '  "name": ' + sgl.gen(regex=REGEX_STR, max_tokens=12) + ",\n"
            s += '  "population": ' + sgl.gen("pop", regex=REGEX_INT, stop=[" ", "\n"]) + ",\n"
            s += '  "coast": ' + sgl.gen("coast", regex=REGEX_BOOL) + ",\n"
            s += '  "latitude": ' + sgl.gen("lat", regex=REGEX_FLOAT, stop=[" ", "\n"]) + "\n"
            s += "}"

    state = decode.run(temperature=0.0)
    assert state["json_output"].startswith('{\n  "name": "')
    assert re.fullmatch(r"[-+]?[0-9]+", state["pop"])
    assert state["coast"] in ("True", "False")
    float(state["lat"])
    assert re.match(REGEX_STR, '"some text"')


def test_typed_gens(runtime) -> None:
    @sgl.function
    def decode(s):
        s += '{"name": ' + sgl.gen_string("name", max_tokens=200)
        s += ', "size": ' + sgl.gen_int("size", max_tokens=8) + "}"

    state = decode.run()
    assert state["name"].startswith('"')
    int(state["size"])


def test_thoughts_are_set_apart() -> None:
    @sgl.function
    def qa(s, question):
        s += sgl.system("You are helpful.")
        s += sgl.user(question)
        s += sgl.assistant_begin()
        s += sgl.separate_reasoning(sgl.gen("answer", max_tokens=512), model_type="qwen3")
        s += sgl.assistant_end()

    reply = "<think>\nTwo and two.\n</think>\n\nFour."
    state = qa("What is 2 + 2?", backend=ScriptedBackend([reply], template="qwen"))
    assert state["answer"] == "Four."
    assert state["answer_reasoning_content"] == "Two and two."
    assert state.messages()[-1] == {"role": "assistant", "content": "Four."}


def test_thoughts_around_and_inside_a_turn() -> None:
    @sgl.function
    def inside(s):
        s += sgl.user("1?")
        s += sgl.assistant(sgl.separate_reasoning(sgl.gen("first"), model_type="deepseek-r1"))
        s += sgl.user("2?")
        s += sgl.assistant(sgl.separate_reasoning(sgl.gen("second"), model_type="deepseek-r1"))
        return s

    @sgl.function
    def around(s):
        s += sgl.user("1?")
        s += sgl.separate_reasoning(sgl.assistant(sgl.gen("first")), model_type="qwen3")

    backend = ScriptedBackend(["hm</think>one", "ha</think>two"])
    state = inside(backend=backend)
    assert [state[name] for name in ("first", "second")] == ["one", "two"]
    assert state["second_reasoning_content"] == "ha"
    assert [m["content"] for m in state.messages() if m["role"] == "assistant"] == ["one", "two"]

    state = around(backend=ScriptedBackend(["<think>so</think>yes"]))
    assert (state["first"], state["first_reasoning_content"]) == ("yes", "so")
    assert state.messages()[-1]["content"] == "yes"


@pytest.mark.parametrize("kind", ["image", "video"])
def test_images_and_videos_are_a_clear_error(kind: str) -> None:
    def show():
        return sgl.image("cat.png") if kind == "image" else sgl.video("cat.mp4", 8)

    @sgl.function
    def look(s, question):
        s += sgl.user(show() + question)
        s += sgl.assistant(sgl.gen("answer"))

    with pytest.raises(sgl.Unsupported, match=kind):
        look.run(question="What is it?", backend=ScriptedBackend())
