"""Chat templates by name: their texts, default system prompts, models, and who uses them."""

from __future__ import annotations

from typing import Any

import pytest

import sglang_lite as sgl
from sglang_lite.errors import InvalidConfig
from sglang_lite.lang import templates
from sglang_lite.lang.chat_template import (
    ChatTemplate,
    ChatTemplateStyle,
    get_chat_template,
    get_chat_template_by_model_path,
    register_chat_template,
    register_chat_template_matching_function,
)
from sglang_lite.lang.model_template import ModelTemplate
from sglang_lite.lang.template_table import FAMILIES, TEXTS
from sglang_lite.testing import ScriptedBackend

SYSTEM = {"role": "system", "content": "S"}
TALK = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "yo"},
    {"role": "user", "content": "more"},
]
HELPFUL = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"


@sgl.function
def chat(s: Any, system: str | None = None) -> None:
    if system is not None:
        s += sgl.system(system)
    s += sgl.user("hi") + sgl.assistant(sgl.gen("a"))
    s += sgl.user("more") + sgl.assistant(sgl.gen("b"))


@pytest.fixture
def registries(monkeypatch: Any) -> None:
    monkeypatch.setattr(templates, "TEMPLATES", dict(templates.TEMPLATES))
    monkeypatch.setattr(templates, "_matching", [])


@pytest.mark.parametrize(
    ("name", "system", "text"),
    [
        ("default", "S", "SYSTEM:S\nUSER:hi\nASSISTANT:yo\nUSER:more\nASSISTANT:"),
        ("claude", None, "\n\nHuman: hi\n\nAssistant:yo\n\nHuman: more\n\nAssistant:"),
        (
            "chatml",
            "S",
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n"
            "<|im_start|>assistant\nyo<|im_end|>\n<|im_start|>user\nmore<|im_end|>\n"
            "<|im_start|>assistant\n",
        ),
        (
            "qwen",
            None,
            HELPFUL + "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nyo<|im_end|>\n"
            "<|im_start|>user\nmore<|im_end|>\n<|im_start|>assistant\n",
        ),
        (
            "llama-2-chat",
            "S",
            "[INST] <<SYS>>\nS\n<</SYS>>\n\nhi [/INST]yo </s><s>[INST] more [/INST]",
        ),
        ("llama-2-chat", None, "[INST] hi [/INST]yo </s><s>[INST] more [/INST]"),
        (
            "llama-3-instruct",
            None,
            "<|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\nyo<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nmore<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n",
        ),
        (
            "gemma-it",
            None,
            "<start_of_turn>user\nhi<end_of_turn>\n<start_of_turn>model\nyo<end_of_turn>\n"
            "<start_of_turn>user\nmore<end_of_turn>\n<start_of_turn>model\n",
        ),
        (
            "yi-1.5",
            "S",
            "S<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nyo<|im_end|>\n"
            "<|im_start|>user\nmore<|im_end|>\n<|im_start|>assistant\n",
        ),
        ("deepseek-v3", "S", "S<｜User｜>hi<｜Assistant｜>yo<｜end▁of▁sentence｜><｜User｜>more<｜Assistant｜>"),  # noqa: E501, RUF001
        ("mistral", None, "[INST] hi [/INST]yo </s><s>[INST] more [/INST]"),
    ],
)  # fmt: skip
def test_a_program_writes_the_templates_text(name: str, system: str | None, text: str) -> None:
    backend = ScriptedBackend(["yo", "end"], template=name)
    chat.run(system=system, backend=backend).sync()
    assert backend.prompts[-1] == text


def test_the_default_system_prompt_becomes_a_message() -> None:
    state = chat.run(backend=ScriptedBackend(["yo", "end"], template="qwen"))
    first, second, *_ = state.messages()
    assert first == {"role": "system", "content": "You are a helpful assistant."}
    assert second == {"role": "user", "content": "hi"}
    state = chat.run(system="S", backend=ScriptedBackend(["yo", "end"], template="qwen"))
    assert [turn["content"] for turn in state.messages()][:2] == ["S", "hi"]


def test_a_templates_stops_end_gens_in_turns() -> None:
    backend = ScriptedBackend(["yo<|eot_id|>never", "end"], template="llama-3-instruct")
    state = chat.run(backend=backend)
    assert state["a"] == "yo"
    assert backend.params[0].stop == ("<|eot_id|>",)


@pytest.mark.parametrize("name", TEXTS)
def test_every_template_writes_whole_conversations_as_it_writes_turns(name: str) -> None:
    template = get_chat_template(name)

    def turn_by_turn(turns: list[dict[str, Any]]) -> str:
        text, messages = "", []
        for turn in turns:
            text += template.begin(messages, turn["role"], text).text + turn["content"]
            messages.append(turn)
            text += template.end(messages, turn["role"])
        return text

    assert template.get_prompt([SYSTEM, *TALK]) == turn_by_turn([SYSTEM, *TALK])
    assert template.get_prompt([{**SYSTEM, "content": None}, *TALK]) == turn_by_turn(TALK)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3-instruct"),
        ("meta-llama/Llama-2-7b-chat-hf", "llama-2-chat"),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "llama-4"),
        ("codellama/CodeLlama-7b-Instruct-hf", "llama-2-chat"),
        ("Qwen/Qwen2.5-7B-Instruct", "qwen"),
        ("Qwen/Qwen2-VL-7B-Instruct", "qwen2-vl"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral"),
        ("google/gemma-2-9b-it", "gemma-it"),
        ("lmsys/vicuna-7b-v1.5", "vicuna_v1.1"),
        ("deepseek-ai/DeepSeek-R1", "deepseek-v3"),
        ("deepseek-ai/DeepSeek-V3-Base", "default"),
        ("TinyLlama/TinyLlama-1.1B-Chat-v1.0", "chatml"),
        ("ibm-granite/granite-3.0-8b-instruct", "granite-3-instruct"),
        ("HuggingFaceTB/SmolLM2-135M-Instruct", "default"),
        ("", "default"),
    ],
)
def test_models_have_the_template_of_their_family(path: str, name: str) -> None:
    assert get_chat_template_by_model_path(path).name == name


def test_families_have_templates() -> None:
    assert {name for name, _, _ in FAMILIES} <= TEXTS.keys()


@pytest.mark.usefixtures("registries")
def test_a_template_of_ones_own() -> None:
    around = {"system": ("<s>", "</s>"), "user": ("<u>", "</u>"), "assistant": ("<a>", "</a>")}
    mine = ChatTemplate("mine", None, around, ["</a>"])
    assert mine.style is ChatTemplateStyle.PLAIN
    register_chat_template(mine)
    assert get_chat_template("mine") is mine

    @register_chat_template_matching_function
    def match(path: str) -> str | None:
        return "mine" if "my-model" in path else None

    register_chat_template_matching_function(lambda path: mine if "other" in path else None)
    assert get_chat_template_by_model_path("a/my-model-qwen-chat") is mine
    assert get_chat_template_by_model_path("other") is mine
    assert get_chat_template_by_model_path("a/qwen-chat").name == "qwen"
    backend = ScriptedBackend(["yo", "end"])
    backend.chat_template = mine
    chat.run(system="S", backend=backend).sync()
    assert backend.prompts[-1] == "<s>S</s><u>hi</u><a>yo</a><u>more</u><a>"
    assert backend.params[0].stop == ("</a>",)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(InvalidConfig, match="did you mean 'chatml'"):
        get_chat_template("chatmll")
    with pytest.raises(InvalidConfig, match="known are"):
        get_chat_template("?")
    with pytest.raises(ValueError, match="has no role 'tool'"):
        get_chat_template("qwen").begin([], "tool", "")
    with pytest.raises(InvalidConfig, match="no chat template"):
        sgl.Runtime("fake", core="sglang_lite.testing:fake_core", chat_template_name="x")


def test_a_runtime_takes_a_template_in_place_of_its_models() -> None:
    core = "sglang_lite.testing:fake_core"

    def sent(backend: Any) -> str:
        backend.prompts = []
        chat.run(system="S", backend=backend, max_tokens=2).sync()
        return bytes(id for id in backend.prompts[0] if id < 256).decode()

    with sgl.Runtime("fake?eos=0", core=core, chat_template_name="default") as runtime:
        assert sent(runtime) == "SYSTEM:S\nUSER:hi\nASSISTANT:"
        runtime.chat_template = "claude"
        assert sent(runtime) == "S\n\nHuman: hi\n\nAssistant:"
        endpoint = sgl.RuntimeEndpoint(runtime.address, chat_template_name="default")
        assert sent(endpoint) == "SYSTEM:S\nUSER:hi\nASSISTANT:"
        plain = sgl.RuntimeEndpoint(runtime.address)
        assert isinstance(plain.template, ModelTemplate)
        assert sent(plain).startswith("<|im_start|>system")
