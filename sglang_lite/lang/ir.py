"""SGLang's names for what programs are made of; see `nodes` and `typed`."""

from __future__ import annotations

from sglang_lite.lang.nodes import Argument as SglArgument
from sglang_lite.lang.nodes import Concat as SglExprList
from sglang_lite.lang.nodes import Expr as SglExpr
from sglang_lite.lang.nodes import Gen as SglGen
from sglang_lite.lang.nodes import RoleBegin as SglRoleBegin
from sglang_lite.lang.nodes import RoleEnd as SglRoleEnd
from sglang_lite.lang.nodes import ScopeBegin as SglVarScopeBegin
from sglang_lite.lang.nodes import ScopeEnd as SglVarScopeEnd
from sglang_lite.lang.nodes import Select as SglSelect
from sglang_lite.lang.nodes import Text as SglConstantText
from sglang_lite.lang.nodes import Variable as SglVariable
from sglang_lite.lang.program import Program as SglFunction
from sglang_lite.lang.typed import PATTERNS

REGEX_INT = PATTERNS["int"][0]
REGEX_FLOAT = PATTERNS["float"][0]
REGEX_BOOL = PATTERNS["bool"][0]
REGEX_STR = REGEX_STRING = PATTERNS["str"][0]

__all__ = [
    "REGEX_BOOL",
    "REGEX_FLOAT",
    "REGEX_INT",
    "REGEX_STR",
    "REGEX_STRING",
    "SglArgument",
    "SglConstantText",
    "SglExpr",
    "SglExprList",
    "SglFunction",
    "SglGen",
    "SglRoleBegin",
    "SglRoleEnd",
    "SglSelect",
    "SglVarScopeBegin",
    "SglVarScopeEnd",
    "SglVariable",
]
