"""A small agent that thinks, calls a real calculator, looks at the result and answers."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from running import States, main

import sglang_lite as sgl

SHOTS = """Answer the question. Use the calculator for arithmetic, one call to a line.

Question: A box holds 12 eggs. How many eggs are in 7 boxes?
Thought: I have to multiply the boxes by the eggs in each.
Action: calculator(12 * 7)
Observation: 84
Answer: 84

Question: Ann had 50 coins and gave away 18. How many are left?
Thought: I have to subtract what she gave away.
Action: calculator(50 - 18)
Observation: 32
Answer: 32

"""
QUESTIONS = (
    "A bag holds 64 nuts. How many nuts are in 9 bags?",
    "A farmer had 230 apples and sold 85. How many are left?",
    "Tom has 17 marbles and Mia has 26. How many do they have together?",
)
OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def calculator(expression: str) -> str:
    """The value of an arithmetic expression. It is parsed, never evaluated as code."""

    def value(node: ast.expr) -> float:
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)](value(node.left), value(node.right))
        raise ValueError("only numbers and + - * / are known here")

    try:
        return f"{value(ast.parse(expression.strip(), mode='eval').body):g}"
    except (SyntaxError, ValueError, ZeroDivisionError) as error:
        return f"error: {error}"


@sgl.function
def agent(s: Any, question: str) -> None:
    s += SHOTS + "Question: " + question + "\nThought:"
    s += sgl.gen("thought", max_tokens=24, stop="\n", temperature=0)
    for _ in range(3):
        s += "\nAction: calculator(" + sgl.gen("call", max_tokens=12, stop=")", temperature=0)
        result = calculator(s["call"])
        s += ")\nObservation: " + result + "\n"
        if not result.startswith("error"):
            break
    s += "Answer:" + sgl.gen("answer", max_tokens=8, stop="\n", temperature=0)


def solve(backend: Any) -> States:
    """A state for each question: `thought`, the last `call` of the calculator, and `answer`."""
    rows = [{"question": question} for question in QUESTIONS]
    states: States = agent.run_batch(rows, backend=backend)
    return states


def show(states: States) -> None:
    for question, state in zip(QUESTIONS, states, strict=True):
        print(f"{question}\n  calculator({state['call']}) -> {state['answer'].strip()}")


if __name__ == "__main__":
    main(solve, show)
