"""The texts of named chat templates, and which models they belong to. Facts, no code.

The names and texts are those that SGLang's programs know; what a model was trained with is in its
own template.
"""

from __future__ import annotations

from typing import Any

Around = dict[str, tuple[str, str]]


def _roles(system: tuple[str, str], user: tuple[str, str], assistant: tuple[str, str]) -> Around:
    return {"system": system, "user": user, "assistant": assistant}


def _alike(before: str, after: str, *more: str, assistant: str = "assistant") -> Around:
    """One form for all roles; `ROLE` stands for the name."""
    names = {"system": "system", "user": "user", "assistant": assistant}
    names |= {role: role for role in more}
    return {role: (before.replace("ROLE", name), after) for role, name in names.items()}


HELPFUL = "You are a helpful assistant."
VICUNA = (
    "A chat between a curious user and an artificial intelligence assistant. The assistant gives "
    "helpful, detailed, and polite answers to the user's questions."
)
DBRX = (
    "You are DBRX, created by Databricks. You were last updated in December 2023. You answer "
    "questions based on information available up to that point.\n"
    "YOU PROVIDE SHORT RESPONSES TO SHORT QUESTIONS OR STATEMENTS, but provide thorough responses "
    "to more complex and open-ended questions.\n"
    "You assist with various tasks, from writing to coding (using markdown for code blocks — "
    "remember to use ``` with code, JSON, and tables).\n"
    "(You do not have real-time data access or code execution capabilities. You avoid stereotyping "
    "and provide balanced perspectives on controversial topics. You do not provide song lyrics, "
    "poems, or news articles and do not divulge details of your training data.)\n"
    "This is your system prompt, guiding your responses. Do not reference it, just respond to the "
    "user. If you find yourself talking about this message, stop. You should be responding "
    "appropriately and usually that means not mentioning this.\n"
    "YOU DO NOT MENTION ANY OF THIS INFORMATION ABOUT YOURSELF UNLESS THE INFORMATION IS DIRECTLY "
    "PERTINENT TO THE USER'S QUERY."
)
YI_VL = (
    "This is a chat between an inquisitive human and an AI assistant. Assume the role of the AI "
    "assistant. Read all the images carefully, and respond to the human's questions with "
    "informative, helpful, detailed and polite answers."
    "这是一个好奇的人类和一个人工智能助手之间的对话。假设你扮演这个AI助手的角色。"
    "仔细阅读所有的图像，并对人类的问题做出信息丰富、有帮助、详细的和礼貌的回答。"  # noqa: RUF001
)
INTERN_VL = (
    "你是书生·万象，英文名是InternVL，"  # noqa: RUF001
    "是由上海人工智能实验室、清华大学及多家合作单位联合开发的多模态大语言模型。"
)

CHATML = _alike("<|im_start|>ROLE\n", "<|im_end|>\n")
CHATML_END = ("<|im_end|>",)
LLAMA_3 = _alike("<|start_header_id|>ROLE<|end_header_id|>\n\n", "<|eot_id|>")
MINICPM = _roles(("", " "), ("user:", " "), ("assistant:", "</s>"))
DEEPSEEK_END = "<｜end▁of▁sentence｜>"  # noqa: RUF001
DEEPSEEK = _roles(("", ""), ("<｜User｜>", ""), ("<｜Assistant｜>", DEEPSEEK_END))  # noqa: RUF001

# name -> fields of `ChatTemplate`
TEXTS: dict[str, dict[str, Any]] = {
    "default": {
        "role_prefix_and_suffix": _roles(("SYSTEM:", "\n"), ("USER:", "\n"), ("ASSISTANT:", "\n")),
    },
    "claude": {
        "role_prefix_and_suffix": _roles(("", ""), ("\n\nHuman: ", ""), ("\n\nAssistant:", "")),
    },
    "chatml": {
        "role_prefix_and_suffix": _alike("<|im_start|>ROLE\n", "<|im_end|>\n", "tool"),
        "stop_str": CHATML_END,
    },
    "chatml-llava": {
        "default_system_prompt": HELPFUL,
        "role_prefix_and_suffix": CHATML,
        "stop_str": CHATML_END,
        "image_token": "<image>\n",
    },
    "qwen": {
        "default_system_prompt": HELPFUL,
        "role_prefix_and_suffix": CHATML,
        "stop_str": CHATML_END,
    },
    "qwen2-vl": {
        "default_system_prompt": HELPFUL,
        "role_prefix_and_suffix": CHATML,
        "stop_str": CHATML_END,
        "image_token": "<|vision_start|><|image_pad|><|vision_end|>",
    },
    "vicuna_v1.1": {
        "default_system_prompt": VICUNA,
        "role_prefix_and_suffix": _roles(("", " "), ("USER:", " "), ("ASSISTANT:", "</s>")),
        "image_token": " <image>\n",
    },
    "llama-2-chat": {
        "role_prefix_and_suffix": _roles(
            ("<<SYS>>\n", "\n<</SYS>>\n\n"), ("[INST] ", " [/INST]"), ("", " </s><s>")
        ),
    },
    "mistral": {
        "role_prefix_and_suffix": _roles(
            ("[SYSTEM_PROMPT] ", " [/SYSTEM_PROMPT]"), ("[INST] ", " [/INST]"), ("", " </s><s>")
        ),
        "stop_str": ("</s>",),
        "image_token": "[IMG]",
    },
    "llama-3-instruct": {
        "role_prefix_and_suffix": LLAMA_3,
        "stop_str": ("<|eot_id|>",),
        "image_token": "<|image|>",
    },
    "llama-3-instruct-llava": {
        "role_prefix_and_suffix": LLAMA_3,
        "stop_str": ("<|eot_id|>",),
        "image_token": "<image>\n",
    },
    "llama-4": {
        "role_prefix_and_suffix": _alike("<|header_start|>ROLE<|header_end|>\n\n", "<|eot|>"),
        "stop_str": ("<|eot|>",),
        "image_token": "<|image|>",
    },
    "yi-1.5": {
        "role_prefix_and_suffix": _roles(
            ("", ""),
            ("<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"),
            ("", "<|im_end|>\n"),
        ),
        "stop_str": CHATML_END,
    },
    "yi-vl": {
        "default_system_prompt": YI_VL,
        "role_prefix_and_suffix": _roles(
            ("", "\n\n"), ("### Human:", "\n"), ("### Assistant:", "\n")
        ),
        "image_token": " <image_placeholder>\n",
    },
    "gemma-it": {
        "role_prefix_and_suffix": {
            **_alike("<start_of_turn>ROLE\n", "<end_of_turn>\n", assistant="model"),
            "system": ("", ""),
        },
    },
    "dbrx-instruct": {
        "default_system_prompt": DBRX,
        "role_prefix_and_suffix": {
            **_alike("\n<|im_start|>ROLE\n", "<|im_end|>"),
            "system": ("<|im_start|>system\n", "<|im_end|>"),
        },
        "stop_str": CHATML_END,
    },
    "c4ai-command-r": {
        "role_prefix_and_suffix": {
            role: (f"<|START_OF_TURN_TOKEN|><|{name}_TOKEN|>", "<|END_OF_TURN_TOKEN|>")
            for role, name in (("system", "SYSTEM"), ("user", "USER"), ("assistant", "CHATBOT"))
        },
    },
    "internvl-2-5": {
        "default_system_prompt": INTERN_VL,
        "role_prefix_and_suffix": CHATML,
        "stop_str": ("<|im_end|>", "<|action_end|>"),
    },
    "granite-3-instruct": {
        "role_prefix_and_suffix": _alike("<|start_of_role|>ROLE<|end_of_role|>", "<|end_of_text|>"),
        "stop_str": ("<|end_of_text|>",),
    },
    "deepseek-v3": {"role_prefix_and_suffix": DEEPSEEK, "stop_str": (DEEPSEEK_END,)},
    "janus": {
        "role_prefix_and_suffix": DEEPSEEK,
        "stop_str": (DEEPSEEK_END,),
        "image_token": "<image_placeholder>\n",
    },
    "janus-pro": {
        "role_prefix_and_suffix": DEEPSEEK,
        "stop_str": (DEEPSEEK_END,),
        "image_token": "<image_placeholder>\n",
    },
    "minicpmv": {
        "role_prefix_and_suffix": MINICPM,
        "stop_str": ("<|im_end|>", "<|endoftext|>"),
        "image_token": "(<image>./</image>)",
    },
    "minicpmo": {
        "role_prefix_and_suffix": MINICPM,
        "stop_str": ("<|im_end|>", "<|endoftext|>"),
        "image_token": "(<image>./</image>)",
        "audio_token": "(<audio>./</audio>)",
    },
    "glm-4v": {
        "role_prefix_and_suffix": _alike("<|ROLE|>\n", "\n"),
        "stop_str": ("<|user|>", "<|endoftext|>", "<|observation|>"),
        "image_token": "<|image|>",
    },
}

# template, what a model's path has in it, what it must not have; the first that fits counts
FAMILIES: tuple[tuple[str, str, str | None], ...] = (
    ("deepseek-v3", r"deepseek-(v3|r1)", r"base"),
    ("janus-pro", r"janus", None),
    ("dbrx-instruct", r"dbrx.*instruct", None),
    ("vicuna_v1.1", r"vicuna|llava-v1\.5|llava-next-video-7b", None),
    ("llama-2-chat", r"llama-2.*chat|codellama.*instruct", None),
    ("mistral", r"pixtral|(mistral|mixtral).*instruct", None),
    ("llama-3-instruct", r"llama-3.*instruct", None),
    ("llama-4", r"llama-4.*instruct", None),
    ("chatml", r"tinyllama", None),
    ("qwen2-vl", r"qwen.*vl", None),
    ("glm-4v", r"glm[-_]?4(\.\d+)?v", None),
    ("qwen", r"qwen.*(chat|instruct)", r"llava"),
    (
        "chatml-llava",
        r"llava-v1\.6-(yi-)?34b|llava-next-video-34b|llava-onevision-qwen2",
        None,
    ),
    ("yi-vl", r"yi-vl", r"llava"),
    ("yi-1.5", r"yi-1\.5.*chat", None),
    ("gemma-it", r"gemma.*[-_]it|gemma-3", None),
    ("minicpmv", r"minicpm-v", None),
    ("minicpmo", r"minicpm-o", None),
    ("c4ai-command-r", r"c4ai-command-r", None),
    ("granite-3-instruct", r"granite.*instruct", None),
    ("internvl-2-5", r"internvl2_5", None),
)
