"""How stored documents are read for years: a format is a word and a number, ``manifest/1``, and each step to the next has a function.

A field with a default may be added to a format: documents that were stored before have the default. Whatever an older Tidegate
would misunderstand, or what old documents would be misunderstood for, raises the number: the struct of the old number stays as it
was, under a name of its own, and today's struct names it with the function that leads from there to the next number::

    class Claim1(msgspec.Struct, frozen=True, tag_field="format", tag="claim/1"): ...

    def upgrade_1_to_2(old: Claim1) -> Claim: ...

    class Claim(msgspec.Struct, frozen=True, tag_field="format", tag="claim/2"):
        UPGRADES: ClassVar[Upgrades] = (Upgrade(Claim1, upgrade_1_to_2),)

Fields that a document does not know are passed over: a later version of the same format may have written them. A part without a
format of its own, such as an entry of a manifest, is of the format of the document that it stands in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias, get_args

import msgspec


@dataclass(frozen=True, slots=True)
class Upgrade:
    """One step from a format to its next number. Pure: the same old document gives the same new one."""

    old: type[msgspec.Struct]
    to_next: Callable[[Any], msgspec.Struct]


Upgrades: TypeAlias = tuple[Upgrade, ...]
"""From the oldest number that is still read to today's, without a gap."""


def decode(body: bytes, kind: Any, *, decoder: Callable[..., Any] = msgspec.msgpack.decode) -> Any:
    """What ``body`` says, in today's words. ``kind``: a struct, or a union of structs with formats of their own.

    Raises ``msgspec.MsgspecError`` when it is none of them, in any number that is read.
    """
    if not isinstance(kind, type) and not get_args(kind):
        raise TypeError(f"{kind} is no struct")
    document: object = decoder(body, type=_with_older(kind))
    steps = _steps(kind)
    while (step := steps.get(type(document))) is not None:
        document = step.to_next(document)
    return document


def upgrades_of(kind: type[msgspec.Struct]) -> Upgrades:
    return getattr(kind, "UPGRADES", ())


@cache
def _with_older(kind: Any) -> Any:
    together = kind
    for older in _steps(kind):
        together = together | older
    return together


@cache
def _steps(kind: Any) -> dict[type, Upgrade]:
    return {step.old: step for one in get_args(kind) or (kind,) for step in upgrades_of(one)}
