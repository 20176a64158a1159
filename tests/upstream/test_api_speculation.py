"""Programs for OpenAI models: one call for several gens; templates of one's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from lang.scripted_api import Reply, ScriptedApi, chat, completion, events

import sglang_lite as sgl
from sglang_lite import OpenAI, function, gen
from sglang_lite.lang.chat_template import (
    ChatTemplate,
    get_chat_template,
    register_chat_template,
    register_chat_template_matching_function,
)
from sglang_lite.testing import ScriptedBackend

USAGE = {"usage": {"prompt_tokens": 40, "completion_tokens": 12, "total_tokens": 52}}


@function(num_api_spec_tokens=64)
def character_at_once(s):
    s += "Name: Ann Lee.\nBirthday: 1736.\nJob: founder.\n"
    s += "\nPlease generate new Name, Birthday and Job.\n"
    s += "Name:" + gen("name", stop="\n") + "\nBirthday:" + gen("birthday", stop="\n")
    s += "\nJob:" + gen("job", stop="\n") + "\n"


@function
def character_by_steps(s):
    s += "Name: Ann Lee.\nBirthday: 1736.\nJob: founder.\n"
    s += "\nPlease generate new Name, Birthday and Job.\n"
    s += "Name:" + gen("name", stop="\n") + "\nBirthday:" + gen("birthday", stop="\n")
    s += "\nJob:" + gen("job", stop="\n") + "\n"


Answers = Callable[..., ScriptedApi]


@pytest.fixture
def answered() -> Iterator[Answers]:
    """Starts an API that answers with the texts it is given."""
    with ExitStack() as stack:

        def start(*texts: str, piece: Any = completion) -> ScriptedApi:
            ends = {"id": "x", "choices": [], **USAGE}
            replies = [Reply(events(piece(text), ends)) for text in texts]
            return stack.enter_context(ScriptedApi(*replies))

        yield start


def check_character(state: Any) -> None:
    assert (state["name"], state["birthday"], state["job"]) == (" Bo Chen.", " 1961.", " baker.")
    assert state.text().endswith("Name: Bo Chen.\nBirthday: 1961.\nJob: baker.\n")


def test_a_completion_model_is_asked_once(answered: Answers) -> None:
    api = answered(" Bo Chen.\nBirthday: 1961.\nJob: baker.\nand so on")
    backend = OpenAI("gpt-3.5-turbo-instruct", base_url=api.url, api_key="k")
    check_character(character_at_once.run(backend=backend))
    (_, body, _) = api.seen[0]
    assert len(api.seen) == 1
    assert body["max_tokens"] >= 64
    assert not body.get("stop")


def test_without_it_each_gen_is_a_call_and_tokens_are_counted(answered: Answers) -> None:
    api = answered(" Bo Chen.", " 1961.", " baker.")
    backend = OpenAI("gpt-3.5-turbo-instruct", base_url=api.url, api_key="k")
    backend.token_usage.reset()
    check_character(character_by_steps.run(backend=backend))
    assert len(api.seen) == 3
    assert backend.token_usage.prompt_tokens == 120
    backend.token_usage.reset()
    assert backend.token_usage.prompt_tokens == 0


def test_a_wrong_guess_is_thrown_away(answered: Answers) -> None:
    api = answered(" Bo Chen.\nBorn: 1961", " 1961.\nJob: baker.\n")
    backend = OpenAI("gpt-3.5-turbo-instruct", base_url=api.url, api_key="k")
    check_character(character_at_once.run(backend=backend))
    assert len(api.seen) == 2


@function(num_api_spec_tokens=256)
def chat_at_once(s):
    s += sgl.system("You are helpful.")
    s += sgl.user("Make a character. For each field stop with a newline.")
    s += sgl.assistant("Name: Ann Lee.\nBirthday: 1736.\nJob: founder.\n")
    s += sgl.user("Another one.")
    s += sgl.assistant(
        "Name:"
        + sgl.gen("name", stop="\n")
        + "\nBirthday:"
        + sgl.gen("birthday", stop="\n")
        + "\nJob:"
        + sgl.gen("job", stop="\n")
    )


@pytest.mark.parametrize("end", ["", "\n", "\nDo you like it?"], ids=["none", "stop", "more"])
def test_a_chat_model_fills_a_whole_turn(answered: Answers, end: str) -> None:
    api = answered("Name: Bo Chen.\nBirthday: 1961.\nJob: baker." + end, piece=chat)
    backend = OpenAI("gpt-4-turbo", base_url=api.url, api_key="k")
    state = chat_at_once.run(backend=backend)
    assert [state[name].strip() for name in ("name", "birthday", "job")] == [
        "Bo Chen.",
        "1961.",
        "baker.",
    ]
    assert len(api.seen) == 1
    assert state.messages()[-1]["content"] == "Name: Bo Chen.\nBirthday: 1961.\nJob: baker."
    assert [m["role"] for m in api.seen[0][1]["messages"]][:4] == [
        "system",
        "user",
        "assistant",
        "user",
    ]


def test_a_chat_model_is_asked_again_until_the_form_is_right(answered: Answers) -> None:
    good = "Name: Bo Chen.\nBirthday: 1961.\nJob: baker."
    api = answered("Sure! " + good, "Name: Bo, 1961, baker", good, piece=chat)
    state = chat_at_once.run(backend=OpenAI("gpt-4-turbo", base_url=api.url, api_key="k"))
    assert state["job"] == " baker."
    assert len(api.seen) == 3


def test_the_older_name_of_the_option() -> None:
    @function(api_num_spec_tokens=32)
    def program(s):
        s += "A:" + gen("a", stop="\n") + "\nB:" + gen("b", stop="\n")

    backend = ScriptedBackend(["1\nB:2\n"], raw=True)
    state = program.run(backend=backend)
    assert (state["a"], state["b"]) == ("1", "2")
    assert len(backend.prompts) == 1


def test_a_chat_with_an_openai_model(answered: Answers) -> None:
    @sgl.function
    def talk(s, question):
        s += sgl.system("Be brief.")
        s += sgl.user(question)
        s += sgl.assistant(sgl.gen("answer", max_tokens=64))

    api = answered("Paris.", piece=chat)
    state = talk.run(question="Capital?", backend=OpenAI("gpt-4", base_url=api.url, api_key="k"))
    assert state["answer"] == "Paris."
    assert state.messages()[-1] == {"role": "assistant", "content": "Paris."}
    assert api.seen[0][1]["messages"] == state.messages()[:2]


def test_a_gen_in_the_middle_of_a_chat_turn_needs_speculation() -> None:
    @sgl.function
    def talk(s):
        s += sgl.user("Hi")
        s += sgl.assistant("Answer: " + sgl.gen("answer"))

    with ScriptedApi(Reply({"data": [{"id": "gpt-4", "owned_by": "openai"}]})) as api:
        error = talk.run(backend=OpenAI("gpt-4", base_url=api.url, api_key="k")).error()
    assert isinstance(error, sgl.ProgramError)
    assert isinstance(error.__cause__, sgl.Unsupported)
    assert "num_api_spec_tokens" in str(error)


def greeting(s):
    s += sgl.system("Rules.")
    s += sgl.user("Hi")
    s += sgl.assistant(sgl.gen("answer", max_tokens=5))


ROLES = {
    "system": ("[S]", "[/S]"),
    "user": ("[U]", "[/U]"),
    "assistant": ("[A]", "[/A]"),
}


def test_a_template_of_ones_own() -> None:
    register_chat_template(
        ChatTemplate(
            name="brackets",
            default_system_prompt=None,
            role_prefix_and_suffix=ROLES,
            stop_str=("[/A]",),
        )
    )
    backend = ScriptedBackend(["Hello[/A]"])
    backend.chat_template = get_chat_template("brackets")
    state = sgl.function(greeting).run(backend=backend)
    assert state.text() == "[S]Rules.[/S][U]Hi[/U][A]Hello[/A]"
    assert state["answer"] == "Hello"


def test_a_template_found_by_the_path_of_a_model() -> None:
    from sglang_lite.lang.chat_template import get_chat_template_by_model_path

    register_chat_template(
        ChatTemplate(
            name="brackets-2", default_system_prompt="D", role_prefix_and_suffix=ROLES, stop_str=()
        )
    )

    @register_chat_template_matching_function
    def match_brackets(model_path: str) -> str | None:
        return "brackets-2" if "bracket-model" in model_path else None

    assert get_chat_template_by_model_path("me/bracket-model-7b").name == "brackets-2"
    assert get_chat_template_by_model_path("meta-llama/Llama-2-7b-chat-hf").name == "llama-2-chat"
    template = get_chat_template("brackets-2")
    assert template.get_prefix_and_suffix("user", []) == ("[U]", "[/U]")


def test_the_template_of_an_endpoint(port) -> None:
    endpoint = sgl.RuntimeEndpoint(f"http://localhost:{port}", chat_template_name="qwen")
    assert endpoint.get_chat_template().name == "qwen"
    state = sgl.function(greeting).run(backend=endpoint)
    assert state.text() == (
        "<|im_start|>system\nRules.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\n" + state["answer"] + "<|im_end|>\n"
    )
    endpoint.chat_template = get_chat_template("vicuna_v1.1")
    state = sgl.function(greeting).run(backend=endpoint)
    assert state.text() == "Rules. USER:Hi ASSISTANT:" + state["answer"] + "</s>"
