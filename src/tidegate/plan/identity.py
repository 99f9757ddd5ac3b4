"""Names under which state is stored: what an operator is and what it reads or groups by, never where it stands in the plan.

A name is ``<kind>-<slug>``: ``source-parquet_bids``, ``watermark-ts_parquet_bids``, ``aggregate-window_auction``, ``sink-parquet``.
Whatever is inserted, removed or moved around an operator leaves its name alone. Operators that cannot be told apart that way
get ``-2``, ``-3``; which of them is which is the user's to say as soon as their number changes (``pin``).
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from tidegate.model.errors import InvalidQuery
from tidegate.model.ids import OperatorId
from tidegate.plan.keyed import Deduplicate, SessionAggregate, StatefulProcess, StreamJoin
from tidegate.plan.meaning import GENERATED, meanings_of, plain
from tidegate.plan.ordering import Limit
from tidegate.plan.relational import Aggregate, AssignWatermark, Keyed, Plan, Scan, Sink, Stateful
from tidegate.plan.shapes import shape_of
from tidegate.plan.sharing import distinct

SLUG_LENGTH_MAX = 48
_NUMBERED = re.compile(r"([a-z]+-[a-z0-9_]+)-(\d+)")
_UID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")
_KINDS: dict[type[Stateful], str] = {
    Scan: "source",
    AssignWatermark: "watermark",
    Aggregate: "aggregate",
    SessionAggregate: "sessions",
    Deduplicate: "deduplicate",
    Limit: "limit",
    StreamJoin: "join",
    StatefulProcess: "process",
    Sink: "sink",
}
_Node = TypeVar("_Node", bound=Plan)


def identify(plan: Sink) -> Sink:
    """The plan with a name for every stateful operator. The same query has the same names in every session."""
    return identify_all((plan,))[0]


def identify_all(plans: Sequence[Sink]) -> tuple[Sink, ...]:
    """The same for the plans of one pipeline: a node that they have in common has one name, and stays one node."""
    nodes = list(_stateful(plans))
    readers = _readers(plans)
    bases = [_base(node) for node in nodes]
    # Equal ones are numbered by what tells them apart, and by position only if nothing does.
    order = sorted(
        range(len(nodes)), key=lambda index: (bases[index], _details(nodes[index]), readers[id(nodes[index])], index)
    )
    seen: Counter[str] = Counter()
    names: dict[int, OperatorId] = {}
    for index in order:
        seen[bases[index]] += 1
        number = seen[bases[index]]
        names[id(nodes[index])] = OperatorId(bases[index] if number == 1 else f"{bases[index]}-{number}")
    return _renamed(plans, names)


def pin(plan: Sink, uids: Mapping[str, str]) -> Sink:
    """The plan with the names the user chose: ``uids`` goes from an id (or a kind, if there is one of it) to the name.

    Raises ``InvalidQuery`` for an operator that does not exist, a name that cannot be one, and a name given twice.
    """
    return pin_all((plan,), uids)[0]


def pin_all(plans: Sequence[Sink], uids: Mapping[str, str]) -> tuple[Sink, ...]:
    """The same for the plans of one pipeline."""
    nodes = list(_stateful(plans))
    chosen: dict[OperatorId, str] = {}
    for key, uid in uids.items():
        operator = _found(nodes, key)
        if not _UID.fullmatch(uid) or uid.lower().startswith("dead-letter"):
            raise InvalidQuery(
                f"option uid.{key}: {uid!r} cannot be the name of an operator",
                hint="use up to 64 letters, digits, - and _",
            )
        if chosen.setdefault(operator, uid) != uid:
            raise InvalidQuery(
                f"operator {operator} is given two names: {chosen[operator]} and {uid}", hint="keep one of the options"
            )
    names = [OperatorId(chosen.get(node.id, node.id)) for node in nodes]
    # Compared without regard to case: names become directories, also on file systems that do not tell cases apart.
    twice = [name for name in names if sum(name.lower() == other.lower() for other in names) > 1]
    if twice:
        raise InvalidQuery(
            f"two operators would be called {twice[0]!r}",
            hint=f"state is stored under that name; the operators are {_listed(nodes)}",
        )
    by_node = {id(node): name for node, name in zip(nodes, names, strict=True)}
    return _renamed(plans, by_node, frozenset(chosen))


def base_of(operator: OperatorId) -> str:
    """The name without the number that only tells it from its equals."""
    numbered = _NUMBERED.fullmatch(operator)
    return numbered[1] if numbered else operator


def kind_of(operator: OperatorId) -> str:
    return operator.partition("-")[0]


def slug(*texts: str) -> str:
    """Safe in a path, bounded, without ``-``; what is lost of the texts is made up for by a digest of them."""
    whole = "_".join(texts)
    kept = re.sub(r"[^a-z0-9]+", "_", whole.lower()).strip("_")
    if len(kept) > SLUG_LENGTH_MAX or re.search(r"[^A-Za-z0-9_ ./:-]", whole) or kept == "":
        digest = hashlib.sha256(whole.encode()).hexdigest()[:6]
        return f"{kept[: SLUG_LENGTH_MAX - 7]}_{digest}".lstrip("_")
    return kept


def _base(node: Stateful) -> str:
    match node:
        case Scan():
            facts = slug(node.format, *_last_step(node))
        case AssignWatermark(column=column, inputs=inputs):
            facts = slug(plain(column), *(_base(one).partition("-")[2] for one in _nearest(inputs[0])))
        case Aggregate(keys=keys) | SessionAggregate(keys=keys) | Deduplicate(keys=keys) | StatefulProcess(keys=keys):
            facts = slug(*_named_keys(node, keys), *_all(keys))
        case StreamJoin(left=left, right=right):
            facts = slug(*_named_keys(node, left.keys), *_named_keys(node, right.keys))
        case Limit(count=count):
            facts = slug(str(count))
        case Sink(query=query):
            facts = slug(node.format, query) if query else slug(node.format)
    return f"{_KINDS[type(node)]}-{facts}"


def _named_keys(node: Keyed, keys: tuple[str, ...]) -> tuple[str, ...]:
    meant = dict(meanings_of(node))
    return tuple(meant[key] if plain(key) in GENERATED and key in meant else plain(key) for key in keys)


def _all(keys: tuple[str, ...]) -> tuple[str, ...]:
    return () if keys else ("all",)


def _last_step(scan: Scan) -> tuple[str, ...]:
    """The directory's or the topic's own name: a tree that moves as a whole keeps the names of its sources."""
    place = scan.spec.place
    return (place.rpartition("/")[2],) if place else ()


def _details(node: Stateful) -> str:
    facts = [f"{name} {text}" for name, text in shape_of(_with_meanings(node)).parts]
    return "\n".join([*facts, *(_base(one) for child in node.inputs for one in _nearest(child))])


def _stateful(plans: Sequence[Plan]) -> Iterator[Stateful]:
    """From the leaves up, left to right."""
    return (node for node in distinct(plans) if isinstance(node, Stateful))


def _readers(plans: Sequence[Sink]) -> dict[int, tuple[str, ...]]:
    """Which queries of a job read a node: tells equal operators of different queries apart, in whatever order these are added."""
    readers: dict[int, list[str]] = defaultdict(list)
    for plan in plans:
        for node in distinct((plan,)):
            readers[id(node)].append(plan.query)
    return {node: tuple(sorted(queries)) for node, queries in readers.items()}


def _nearest(plan: Plan) -> Iterator[Stateful]:
    """The first stateful operators below, ``plan`` included; watermarks hand their rows through."""
    if isinstance(plan, Stateful) and not isinstance(plan, AssignWatermark):
        yield plan
        return
    for child in plan.inputs:
        yield from _nearest(child)


def _with_meanings(node: _Node) -> _Node:
    return replace(node, meanings=meanings_of(node)) if isinstance(node, Keyed) else node


def _renamed(
    plans: Sequence[Sink], names: Mapping[int, OperatorId], pinned: frozenset[OperatorId] = frozenset()
) -> tuple[Sink, ...]:
    """``names`` by the identity of the nodes."""
    streams = _streams(plans, names)
    done: dict[int, Plan] = {}
    for node in distinct(plans):
        described = _with_meanings(node)
        if not isinstance(described, Scan):
            described = replace(described, inputs=tuple(done[id(child)] for child in node.inputs))
        if isinstance(described, Stateful):
            described = replace(described, id=names[id(node)], pinned=described.id in pinned)
        if isinstance(described, AssignWatermark) and described.stream is not None:
            described = replace(described, stream=streams[described.stream])
        done[id(node)] = described
    return tuple(sink for plan in plans if isinstance(sink := done[id(plan)], Sink))


def _streams(plans: Sequence[Sink], names: Mapping[int, OperatorId]) -> dict[OperatorId, OperatorId]:
    """What becomes of the names of streams: each is called like the first of its branches."""
    branches: dict[OperatorId, list[OperatorId]] = defaultdict(list)
    for node in distinct(plans):
        if isinstance(node, AssignWatermark) and node.stream is not None:
            branches[node.stream].append(names[id(node)])
    return {stream: min(of) for stream, of in branches.items()}


def _found(nodes: list[Stateful], key: str) -> OperatorId:
    wanted = key.lower()
    by_id = [node.id for node in nodes if node.id.lower() == wanted]
    by_kind = [node.id for node in nodes if _KINDS[type(node)] == wanted]
    match by_id or by_kind:
        case [one]:
            return one
        case []:
            raise InvalidQuery(f"option uid.{key} names no operator", hint=f"the operators are {_listed(nodes)}")
        case several:
            raise InvalidQuery(
                f"option uid.{key} could mean {' or '.join(several)}", hint=f"the operators are {_listed(nodes)}"
            )


def _listed(nodes: list[Stateful]) -> str:
    return ", ".join(node.id for node in nodes)
