"""Java's regular expressions for Polars' engine: translated where both can mean the same, refused where not."""

from __future__ import annotations

import polars as pl

from tidegate.model.errors import InvalidQuery

_CLASSES = {"d": "0-9", "w": "A-Za-z0-9_", "s": r" \t\n\x0B\f\r"}
"""Java's classes are ASCII; Rust's would be Unicode."""
_ANY = r"[^\n\r\x{85}\x{2028}\x{2029}]"
_LINE_END = r"(?:(?:\r\n|[\n\r\x{85}\x{2028}\x{2029}])?\z)"
_SAME_ESCAPES = frozenset("tnrfAz.\\+*?()|[]{}^$-/&~#@!%,:;<>=\"'` ")


class _Refused(Exception):
    pass


def reason_against(pattern: str) -> str | None:
    """Why this Java pattern cannot run here, or None."""
    try:
        translate(pattern)
    except InvalidQuery as refusal:
        return refusal.message
    return None


def translate(pattern: str, *, searching: bool = False) -> str:
    """The same pattern for Polars. ``searching``: only whether it matches counts, so ``$`` may consume a line end."""
    try:
        result = _translated(pattern, searching=searching)
        pl.select(pl.lit("").str.contains(result))
    except _Refused as refusal:
        raise InvalidQuery(f"the regular expression {pattern!r} uses {refusal}, which has no equal here") from None
    except pl.exceptions.ComputeError:
        raise InvalidQuery(
            f"the regular expression {pattern!r} is not supported",
            hint="look-around, back references and possessive quantifiers are not available",
        ) from None
    return result


def _translated(pattern: str, *, searching: bool) -> str:
    out: list[str] = []
    index, depth = 0, 0
    while index < len(pattern):
        character = pattern[index]
        index += 1
        if character == "\\":
            if index == len(pattern):
                raise _Refused("a trailing backslash")
            out.append(_escape(pattern[index], inside=depth > 0))
            index += 1
        elif depth > 0:
            depth += (character == "[") - (character == "]")
            out.append(character)
        elif character == "[":
            depth = 1
            out.append(character)
        elif character == ".":
            out.append(_ANY)
        elif character == "$":
            out.append(_LINE_END if searching else r"\z")
        elif character == "+" and out and out[-1] in ("+", "*", "?", "}"):
            raise _Refused("a possessive quantifier")
        elif pattern.startswith("(?", index - 1) and not pattern.startswith("(?:", index - 1):
            raise _Refused("an inline flag, look-around or named group")
        else:
            out.append(character)
    return "".join(out)


def _escape(letter: str, *, inside: bool) -> str:
    if letter in _CLASSES:
        return _CLASSES[letter] if inside else f"[{_CLASSES[letter]}]"
    if letter in "DWS":
        if inside:
            raise _Refused(f"\\{letter} inside brackets")
        return f"[^{_CLASSES[letter.lower()]}]"
    if letter in "bB" and not inside:
        return f"(?-u:\\{letter})"
    if letter in _SAME_ESCAPES:
        return "\\" + letter if not letter.isspace() and letter not in "\"'`,:;<>=@!%/" else letter
    raise _Refused(f"\\{letter}")


def replacement(java: str) -> str:
    """``$1`` and ``\\$`` of a Java replacement, for Polars."""
    out: list[str] = []
    index = 0
    while index < len(java):
        character = java[index]
        index += 1
        if character == "\\" and index < len(java):
            out.append("$$" if java[index] == "$" else java[index])
            index += 1
        elif character == "$":
            end = index
            while end < len(java) and java[end].isdigit():
                end += 1
            if end != index + 1:
                raise InvalidQuery(f"the replacement {java!r} refers to a group in a way that is not supported")
            out.append(f"${{{java[index:end]}}}")
            index = end
        else:
            out.append(character)
    return "".join(out)


def like(pattern: str, escape: str = "\\") -> tuple[str, str]:
    """A LIKE pattern as ``(kind, text)``: kind is equal, prefix, suffix, infix or regex."""
    parts: list[str | None] = []  # None: any string; "" marks one character
    literal = ""
    index, plain = 0, True
    regex = "^(?s:"
    while index < len(pattern):
        character = pattern[index]
        index += 1
        if character == escape:
            if index == len(pattern) or pattern[index] not in ("_", "%", escape):
                raise InvalidQuery(f"the LIKE pattern {pattern!r} has an escape that escapes nothing")
            literal += pattern[index]
            regex += _quoted(pattern[index])
            index += 1
        elif character == "%":
            parts += [literal, None]
            literal = ""
            regex += ".*"
        elif character == "_":
            plain = False
            regex += "."
        else:
            literal += character
            regex += _quoted(character)
    parts.append(literal)
    match parts:
        case [str(text)] if plain:
            return "equal", text
        case [str(text), None, ""] if plain:
            return "prefix", text
        case ["", None, str(text)] if plain:
            return "suffix", text
        case ["", None, str(text), None, ""] if plain:
            return "infix", text
        case _:
            return "regex", regex + ")$"


def _quoted(character: str) -> str:
    return "\\" + character if character in r"\.+*?()|[]{}^$#&-~" else character
