"""Catalyst's expression classes and the plan's function names.

A class that is not listed keeps the SQL name Spark prints for it (``prettyName``), in lower case.
"""

from __future__ import annotations

import re

from tidegate.catalyst.java import present
from tidegate.catalyst.printing import full_text
from tidegate.catalyst.tree import Node
from tidegate.model import types as t
from tidegate.model.types import DataType
from tidegate.plan.expressions import Expression, Literal

PREDICATES = {
    "And": "and",
    "Or": "or",
    "Not": "not",
    "EqualTo": "equalto",
    "EqualNullSafe": "equalnullsafe",
    "LessThan": "lessthan",
    "LessThanOrEqual": "lessthanorequal",
    "GreaterThan": "greaterthan",
    "GreaterThanOrEqual": "greaterthanorequal",
    "In": "in",
    "IsNull": "isnull",
    "IsNotNull": "isnotnull",
    "IsNaN": "isnan",
    "Contains": "contains",
    "StartsWith": "startswith",
    "EndsWith": "endswith",
    "Like": "like",
    "RLike": "rlike",
}
"""Their result is a boolean: no need to ask the JVM."""

ARITHMETIC = {
    "Add": "add",
    "Subtract": "subtract",
    "Multiply": "multiply",
    "Remainder": "remainder",
    "Pmod": "pmod",
    "UnaryMinus": "negative",
    "UnaryPositive": "positive",
    "Abs": "abs",
}
"""Their result has the type of the first argument, unless decimals or intervals are involved."""

NAMES = {
    **PREDICATES,
    **ARITHMETIC,
    "Divide": "divide",
    "IntegralDivide": "div",
    "Coalesce": "coalesce",
    "Upper": "upper",
    "Lower": "lower",
    "Length": "length",
    "Substring": "substring",
    "Concat": "concat",
    "StringTrim": "trim",
    "StringTrimLeft": "ltrim",
    "StringTrimRight": "rtrim",
    "StringReplace": "replace",
    "StringSplit": "split",
    "StringLPad": "lpad",
    "StringRPad": "rpad",
    "TruncTimestamp": "date_trunc",
    "TruncDate": "trunc",
    "DateFormatClass": "date_format",
    "GetTimestamp": "gettimestamp",
    "TimestampAddInterval": "timestampaddinterval",
    "TimeAdd": "timestampaddinterval",
    "PreciseTimestampConversion": "precisetimestampconversion",
    "GetArrayItem": "getarrayitem",
    "GetMapValue": "getmapvalue",
    "BitwiseAnd": "bitwiseand",
    "BitwiseOr": "bitwiseor",
    "BitwiseXor": "bitwisexor",
    "BitwiseNot": "bitwisenot",
}

TRANSPARENT = frozenset(
    {
        "Alias",
        "KnownNullable",
        "KnownNotNull",
        "KnownFloatingPointNormalized",
        "KnownNotContainsNull",
        # −0.0 and NaN are made canonical where they matter: in the key of a join, a group or an exchange.
        "NormalizeNaNAndZero",
    }
)
"""Notes to the optimiser: the value is that of the only child."""

_STATIC = {
    "isLuhnNumber": "luhn_check",
    "UrlCodec.encode": "url_encode",
    "UrlCodec.decode": "url_decode",
    "Base64.encode": "base64",
    "Base32.encode": "to_base32",
    "UnBase32.decode": "from_base32",
    "Encode.encode": "encode",
    "StringDecode.decode": "decode",
    "aesEncrypt": "aes_encrypt",
    "aesDecrypt": "aes_decrypt",
    "JsonExpressionUtils.lengthOfJsonArray": "json_array_length",
    "JsonExpressionUtils.jsonObjectKeys": "json_object_keys",
    "CharVarcharCodegenUtils.charTypeWriteSideCheck": "char_type_write_check",
    "CharVarcharCodegenUtils.varcharTypeWriteSideCheck": "varchar_type_write_check",
    "CharVarcharCodegenUtils.readSidePadding": "rpad",
}
_EVALUATORS = {
    "JsonToStructsEvaluator": "from_json",
    "StructsToJsonEvaluator": "to_json",
    "SchemaOfJsonEvaluator": "schema_of_json",
    "GetJsonObjectEvaluator": "get_json_object",
    "ParseUrlEvaluator": "parse_url",
    "CsvToStructsEvaluator": "from_csv",
    "StructsToCsvEvaluator": "to_csv",
    "ToNumberEvaluator": "to_number",
}

_TRY = {
    "add": "try_add",
    "subtract": "try_subtract",
    "multiply": "try_multiply",
    "divide": "try_divide",
    "remainder": "try_mod",
}


def function_name(node: Node) -> str:
    """The plan's name of the function; ``try_*`` where an overflow or a zero divisor gives null by request."""
    name = NAMES.get(node.kind) or _invoked(node) or node.facts.name
    return _TRY[name] if name in _TRY and node.mode == "TRY" else name


def result_type(node: Node, args: tuple[Expression, ...]) -> DataType:
    """The result's type, without asking the JVM where the class says it."""
    if node.kind in PREDICATES:
        return t.BOOLEAN
    if node.kind in ARITHMETIC and args and args[0].type in (*t.INTEGRAL, *t.FRACTIONAL):
        return args[0].type
    return node.type


def arguments_of(node: Node) -> list[Node]:
    """Children that are values. The evaluator that an Invoke is called on is a Java object, unless it is a string itself."""
    is_evaluator = node.kind == "Invoke" and str(node.fields["functionName"]) not in ("isValid", "makeValid")
    return node.children[1:] if is_evaluator else node.children


_ORDERED = "CASE WHEN (left@0.0 < right@0.1) THEN -1 ELSE CASE WHEN (left@0.0 > right@0.1) THEN 1 ELSE 0 END END"
_ASCENDING = (
    "(left@0.0, right@0.1) -> CASE WHEN ((left@0.0 IS NULL) AND (right@0.1 IS NULL)) THEN 0"
    f" ELSE CASE WHEN (left@0.0 IS NULL) THEN 1 ELSE CASE WHEN (right@0.1 IS NULL) THEN -1 ELSE {_ORDERED} END END END",
    f"(left@0.0, right@0.1) -> {_ORDERED}",
)
"""The comparison that Spark writes out for ``array_sort(xs)``; and what its optimiser leaves of it where no element can be null."""


def all_arguments(node: Node, args: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """Children, and what Catalyst keeps beside them though it changes the meaning."""
    match node.kind:
        case "Like" | "ILike":
            escape = str(node.java.escapeChar())
            return args if escape == "\\" else (*args, Literal(escape, t.STRING))
        case "TimestampAdd" | "TimestampDiff":
            return (Literal(str(node.fields["unit"]).upper(), t.STRING), *args)
        case "ElementAt":
            default = present(node.java.defaultValueOutOfBound())
            return args if default is None else (*args, Literal(str(default.value().toString()), t.STRING))
        case "Murmur3Hash" | "XxHash64":
            return (*args, Literal(int(node.java.seed()), t.LONG))
        case "ArraySort" if re.sub(r"@\d+", "@0", full_text(args[1])) in _ASCENDING:
            return args[:1]
        case "AtLeastNNonNulls":
            return (Literal(int(node.fields["n"]), t.INTEGER), *args)
        case _:
            return args


_READ = frozenset[str]().union(
    # What every conversion looks at, or what describes the tree and not the meaning.
    ("class", "num-children", "dataType", "evalMode", "evalContext", "failOnError", "ansiEnabled", "timeZoneId"),
    # Read by name above, or in ``_invoked``.
    ("escapeChar", "unit", "defaultValueOutOfBound", "seed", "n", "legacySizeOfNull", "staticObject", "functionName"),
    # How the JVM calls a method, not what it computes.
    ("propagateNull", "returnNullable", "isDeterministic", "useStringTypeWhenEmpty", "scalarFunction", "inputTypes"),
    # Types stand on the arguments themselves; collations are refused where they stand.
    ("fromType", "toType", "collationName", "suggestedFuncOnFail"),
)


_USUAL = {
    "legacyNegativeIndex": False,
    "legacyInterval": False,
    "followThreeValuedLogic": True,
    "allowNullComparisonResult": False,
    "variantAllowDuplicateKeys": False,
}
"""Settings of Spark that change a function's meaning, as they are unless someone asks for the behaviour of older versions."""


def unread_argument(node: Node) -> str | None:
    """A constructor argument of a Catalyst expression that nothing here has read: its meaning would be lost silently."""
    if "options" in node.fields and not node.java.options().isEmpty():
        return f"options {node.java.options().toString()}"
    if node.kind == "Invoke" and re.match(r"\w+Evaluator\(Map\([^)]", str(node.children[0].fields.get("value"))):
        return "options"
    for name, value in node.fields.items():
        if name in _READ or value is None or isinstance(value, list | dict) or _USUAL.get(name) is value:
            continue
        # Children stand in the JSON as their index: only the object itself tells an index from a number.
        if type(value) is int and not isinstance(getattr(node.java, name)(), int):
            continue
        return f"{name} = {value}"
    return None


def ansi_of(node: Node, session: bool) -> bool:
    """True where Spark raises on overflow, a zero divisor or a bad value."""
    if node.kind == "Size":
        return not node.fields["legacySizeOfNull"]
    if node.kind == "Invoke" and str(node.children[0].fields.get("value")).startswith("ParseUrlEvaluator"):
        return str(node.children[0].fields["value"]).endswith("true)")
    mode = node.mode
    return session if mode is None else mode == "ANSI"


def _invoked(node: Node) -> str | None:
    """Functions that the optimiser turned into a call of a Java method."""
    match node.kind:
        case "StaticInvoke":
            holder = str(node.fields["staticObject"]).rpartition(".")[2].rstrip("$")
            method = str(node.fields["functionName"])
            return _STATIC.get(f"{holder}.{method}") or _STATIC.get(method) or method.lower()
        case "Invoke":
            evaluator = node.children[0]
            holder = str(evaluator.java.dataType().toString())
            for name, function in _EVALUATORS.items():
                if name in holder:
                    return function
            if (found := re.search(r"(\w+)Evaluator", holder)) is not None:  # XPathStringEvaluator: xpath_string
                return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", found[1].replace("XPath", "Xpath")).lower()
            return str(node.fields["functionName"]).lower()
        case _:
            return None
