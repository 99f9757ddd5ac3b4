"""``parse_url``: parts of URLs, by the grammar of ``java.net.URI``."""

from __future__ import annotations

import re

import polars as pl

from tidegate.model import types as t
from tidegate.operators.expressions.compiled import Built, Check, Checked
from tidegate.operators.expressions.registry import argument, arity, constants, function, takes
from tidegate.plan.expressions import Call

_URI = r"^(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?$"
_LEGAL = r"^(?:[A-Za-z0-9_.!~*'();/?:@&=+$,\[\]#-]|%[0-9A-Fa-f]{2}|[^\x00-\x7F])*$"
_HOST = r"^(?:[^@]*@)?([A-Za-z0-9.\-]+|\[[0-9A-Fa-f:.]+\])(?::\d*)?$"
_OPAQUE = r"^[A-Za-z][A-Za-z0-9+.-]*:[^/]"
_PARTS = ("PROTOCOL", "HOST", "PATH", "QUERY", "REF", "FILE", "AUTHORITY", "USERINFO")


def _known(call: Call) -> str | None:
    if str(argument(call, 1)) not in _PARTS:
        return f"parse_url of {argument(call, 1)!r} is not supported: it knows {', '.join(_PARTS)}"
    if len(call.args) == 3 and str(argument(call, 1)) != "QUERY":
        return "parse_url takes a key only for QUERY"
    return None


@function(
    "parse_url",
    "try_parse_url",
    "parseurl",
    supports=arity(2, 3, also=constants(1, 2, also=takes(t.STRING, also=_known))),
)
def parse_url(call: Call, url: pl.Expr, *_: pl.Expr) -> Built:
    """Null for a part that is not there; an error for a text that is no URL."""
    groups = url.str.extract_groups(_URI)
    scheme, authority, path, query, ref = (groups.struct.field(str(n)) for n in range(1, 6))
    legal = (
        url.str.contains(_LEGAL) & ~url.str.contains(r"^[A-Za-z][A-Za-z0-9+.-]*:$") & (url.str.count_matches("#") <= 1)
    )
    hierarchical = ~url.str.contains(_OPAQUE)
    host = authority.str.extract(_HOST)
    match str(argument(call, 1)):
        case "PROTOCOL":
            part = scheme
        case "HOST":
            part = host
        case "PATH":
            part = pl.when(hierarchical).then(path)
        case "QUERY" if len(call.args) == 3:
            key = re.escape(str(argument(call, 2)))
            part = pl.when(hierarchical).then(query).str.extract(rf"(?:^|&){key}=([^&]*)")
        case "QUERY":
            part = pl.when(hierarchical).then(query)
        case "REF":
            part = ref
        case "FILE":
            whole = pl.when(query.is_null()).then(path).otherwise(path + "?" + query)
            part = pl.when(hierarchical).then(whole)
        case "AUTHORITY":
            part = pl.when(authority != "").then(authority)
        case _:
            part = pl.when(host.is_not_null()).then(authority.str.extract(r"^([^@]*)@"))
    return Checked(pl.when(legal).then(part), (Check(~legal, "INVALID_URL"),))
