"""Options of a source or sink as Spark treats them: names are case-insensitive, values are text.

A connector declares each option once, as a field of its spec. Reading, defaults, refusals and the page of the documentation follow
from the declarations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from difflib import get_close_matches
from typing import Any

from tidegate.model.errors import InvalidQuery
from tidegate.ports.kinds import Kind, Unfit
from tidegate.ports.showing import HIDDEN, without_passwords

SET_BY_TIDEGATE = frozenset({"checkpointlocation", "queryname"})
"""Spark passes these on to sinks."""


@dataclass(frozen=True, slots=True)
class Option:
    """The declaration of one option."""

    name: str
    kind: Kind[Any]
    doc: str
    default: Any = MISSING
    aliases: tuple[str, ...] = ()
    """Other names of Spark for it; the first one that the user gives counts, ``name`` before all."""
    needed: str = ""
    """Without a default: what to do if it is missing."""
    shown: str = ""
    """The default on the page, where its own text does not say it."""

    @property
    def is_required(self) -> bool:
        return self.default is MISSING


@dataclass(frozen=True, slots=True)
class Prefix:
    """The declaration of all options whose names begin so. They go to a library as they are; their values are never shown."""

    name: str
    doc: str


@dataclass(frozen=True, slots=True)
class Refused:
    """An option of Spark that would change results and is not built. Its default, which PySpark's methods pass for what the user has not
    said, is built, and never refused."""

    hint: str
    default: str | None = None

    def admits(self, value: str) -> bool:
        if self.default is None:
            return False
        # Words are meant in any case; a value such as NaN is not.
        is_word = self.default.islower() or self.default.isupper()
        return value == self.default or (is_word and value.lower() == self.default.lower())


def option(
    name: str,
    kind: Kind[Any],
    default: Any = MISSING,
    *,
    doc: str,
    aliases: tuple[str, ...] = (),
    needed: str = "",
    shown: str = "",
) -> Any:
    """A field of a spec that the user sets."""
    declared = Option(name, kind, doc, default, aliases, needed, shown)
    metadata = {"option": declared}
    return field(metadata=metadata) if default is MISSING else field(default=default, metadata=metadata)


def anything(prefix: str, *, doc: str) -> Any:
    """A field of a spec for all options under a prefix, by the rest of their names in the user's own case."""
    return field(default_factory=dict[str, str], metadata={"option": Prefix(prefix, doc)}, repr=False)


def group(of: type[Any]) -> Any:
    """A field of a spec for options that belong together: a dataclass that declares them."""
    return field(metadata={"group": of})


def refused(*names: str, hint: str) -> dict[str, Refused]:
    refusal = Refused(hint)
    return dict.fromkeys(names, refusal)


def refused_unless(defaults: Mapping[str, str], *, hint: str) -> dict[str, Refused]:
    return {name: Refused(f"{hint} ({name}={default} is what is built)", default) for name, default in defaults.items()}


class Options:
    """What the user gave, read by name. Remembers which names were asked for, and says clearly what is wrong with a value."""

    def __init__(self, given: Mapping[str, str], what: str) -> None:
        self.what = what
        """For messages: ``csv source``."""
        self._values = {name.lower(): value for name, value in given.items()}
        self._names = {name.lower(): name for name in given}
        self._asked: set[str] = set(SET_BY_TIDEGATE)

    def read(self, spec: type[Any]) -> dict[str, Any]:
        """The value of every option that a dataclass declares, by the name of its field. Raises InvalidQuery."""
        values: dict[str, Any] = {}
        for one in fields(spec):
            if "option" in one.metadata:
                values[one.name] = self._declared(one.metadata["option"])
            elif "group" in one.metadata:
                of = one.metadata["group"]
                values[one.name] = of(**self.read(of))
        return values

    def read_all(self, spec: type[Any], refusals: Mapping[str, Refused], ignored: Iterable[str]) -> dict[str, Any]:
        """The same, and nothing else may have been given but what is ``ignored``: options without effect here, and those of
        ``refusals`` at the values that are built."""
        self.refuse(refusals)
        values = self.read(spec)
        self.ignore(*ignored)
        self.refuse_unknown((*_names_of(spec), *refusals, *ignored))
        return values

    def shown(self, spec: type[Any]) -> tuple[tuple[str, str], ...]:
        """What the user gave, for people. A value that is not declared to be harmless is hidden."""
        kinds = {
            name.lower(): one.kind
            for one in _declarations(spec)
            if isinstance(one, Option)
            for name in (one.name, *one.aliases)
        }
        return tuple(
            (name, without_passwords(self._values[key]) if key in kinds and kinds[key].harmless else HIDDEN)
            for key, name in sorted(self._names.items())
            if key not in SET_BY_TIDEGATE
        )

    def text(self, name: str) -> str | None:
        self._asked.add(name.lower())
        return self._values.get(name.lower())

    def parsed(self, name: str, kind: Kind[Any], default: Any = None) -> Any:
        text = self.text(name)
        if text is None:
            return default
        try:
            return kind.parse(text)
        except Unfit as wanted:
            raise self.invalid(name, text if kind.harmless else HIDDEN, str(wanted)) from None

    def prefixed(self, prefix: str) -> dict[str, str]:
        """All options whose names begin so, under the rest of the name, in the user's own case."""
        found = {key: name for key, name in self._names.items() if key.startswith(prefix.lower())}
        self._asked.update(found)
        return {name[len(prefix) :]: self._values[key] for key, name in found.items()}

    def refuse(self, refusals: Mapping[str, Refused]) -> None:
        for name, one in refusals.items():
            value = self.text(name)
            if value is not None and not one.admits(value):
                raise InvalidQuery(f"option {name!r} of the {self.what} is not supported", hint=one.hint)

    def ignore(self, *names: str) -> None:
        """These exist in Spark and cannot change results here."""
        self._asked.update(name.lower() for name in names)

    def refuse_unknown(self, known: Iterable[str]) -> None:
        """Raises InvalidQuery for an option that nobody asked for."""
        unknown = sorted(name for key, name in self._names.items() if key not in self._asked)
        if not unknown:
            return
        by_key = {name.lower(): name for name in known}
        close = get_close_matches(unknown[0].lower(), by_key, n=1, cutoff=0.7)
        raise InvalidQuery(
            f"the {self.what} has no option {unknown[0]!r}",
            hint=f"did you mean {by_key[close[0]]!r}?"
            if close
            else f"its options are {', '.join(sorted(by_key.values()))}",
        )

    def invalid(self, name: str, value: str, wanted: str) -> InvalidQuery:
        return InvalidQuery(f"option {name!r} of the {self.what} is {value!r}", hint=f"it must be {wanted}")

    def _declared(self, declared: Option | Prefix) -> Any:
        if isinstance(declared, Prefix):
            return self.prefixed(declared.name)
        given = [name for name in (declared.name, *declared.aliases) if self.text(name) is not None]
        if given:
            value = self.parsed(given[0], declared.kind)
            if declared.is_required and not value:
                raise self.missing(declared)
            return value
        if declared.is_required:
            raise self.missing(declared)
        return declared.default

    def missing(self, declared: Option) -> InvalidQuery:
        return InvalidQuery(f"the {self.what} needs the option {declared.name!r}", hint=declared.needed or declared.doc)


def describe(spec: type[Any]) -> str:
    """The table of a connector's options, for its page."""
    lines = ["| option | range | default | meaning |", "| --- | --- | --- | --- |"]
    for one in _declarations(spec):
        match one:
            case Prefix(name, doc):
                lines.append(f"| `{name}…` | | | {doc} |")
            case Option():
                others = "".join(f", `{name}`" for name in one.aliases)
                lines.append(f"| `{one.name}`{others} | {one.kind} | {_shown_default(one)} | {one.doc} |")
    return "\n".join(lines)


def _shown_default(one: Option) -> str:
    if one.shown or one.is_required:
        return one.shown or "–"
    match one.default:
        case bool() as yes:
            return f"`{str(yes).lower()}`"
        case None | "":
            return ""
        case other:
            return f"`{other}`"


def _declarations(spec: type[Any]) -> Iterator[Option | Prefix]:
    for one in fields(spec):
        if "option" in one.metadata:
            yield one.metadata["option"]
        elif "group" in one.metadata:
            yield from _declarations(one.metadata["group"])


def _names_of(spec: type[Any]) -> Iterator[str]:
    for one in _declarations(spec):
        yield one.name
        if isinstance(one, Option):
            yield from one.aliases
