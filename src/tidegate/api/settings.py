"""What a user set for one query, checked and sorted by whom it concerns. Options that are not ours belong to the sink.

Names are matched without regard to case, as Spark does. An option that looks like one of ours misspelt is refused, because
``.option("paralelism", 4)`` must not run with the default.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from tidegate.api.durations import show_duration
from tidegate.api.options import OPTIONS, to_text
from tidegate.model.config import QueryConfig, RestartStrategy
from tidegate.model.errors import InvalidQuery
from tidegate.storage.options import NO_OPTIONS, StorageOptions, storage_options
from tidegate.storage.options import PREFIX as STORAGE_PREFIX

_BY_NAME = {option.name.lower(): option for option in OPTIONS}
_PREFIX = "tidegate."
UID_PREFIX = "uid."
_ORDERED = tuple(
    (_BY_NAME[shorter.lower()], _BY_NAME[longer.lower()])
    for shorter, longer in (
        ("heartbeatInterval", "silenceTimeout"),
        ("restartDelayMin", "restartDelayMax"),
        ("alignedTimeout", "checkpointTimeout"),
    )
)
"""Pairs of durations in which the first must not be the longer one."""


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """The user's options, sorted by whom they concern."""

    config: dict[str, object]
    """Fields of QueryConfig that the user set."""
    checkpoint_location: str | None
    progress: str | None
    accept_duplicates: bool
    start_from: str | None
    claim_savepoint: bool
    """The savepoint named by ``start_from`` belongs to this query: it is deleted once it has been imported."""
    uids: dict[str, str]
    """``uid.<operator>``: names the user gave to operators."""
    sink: dict[str, str]
    """All others, under the names the user gave."""
    storage: StorageOptions = NO_OPTIONS
    """``storage.*``: how the stores of checkpoints, savepoints and files are reached."""


def sort_options(given: dict[str, object]) -> QueryOptions:
    """Checks every option. Raises InvalidQuery for a bad value or a misspelt name."""
    config: dict[str, object] = {}
    own: dict[str, str] = {}
    uids: dict[str, str] = {}
    sink: dict[str, str] = {}
    storage: dict[str, object] = {}
    for name, value in given.items():
        plain = name.lower().removeprefix(_PREFIX)
        if plain.startswith(STORAGE_PREFIX):
            # Not in lower case: names of Hadoop's settings are as they are.
            storage[name[len(name) - len(plain) + len(STORAGE_PREFIX) :]] = value
            continue
        if plain.startswith(UID_PREFIX):
            uids[plain.removeprefix(UID_PREFIX)] = str(value)
            continue
        option = _BY_NAME.get(plain)
        if option is None:
            _refuse_misspelt(name, plain)
            sink[name] = to_text(value)
            continue
        parsed = option.range(value, f"option {option.name}")
        if option.field:
            config[option.field] = parsed
        else:
            own[option.name] = str(parsed)
    if own.get("startFromMode") == "claim" and "startFrom" not in own:
        raise InvalidQuery("option startFromMode is claim, but startFrom names no savepoint")
    return QueryOptions(
        config=config,
        checkpoint_location=own.get("checkpointLocation"),
        progress=own.get("progress"),
        accept_duplicates=own.get("onCorruptCheckpoint") == "fallBack",
        start_from=own.get("startFrom"),
        claim_savepoint=own.get("startFromMode") == "claim",
        uids=uids,
        sink=sink,
        storage=storage_options(storage),
    )


def to_config(fields: dict[str, object]) -> QueryConfig:
    """Checks what options say together. Raises InvalidQuery."""
    try:
        config = QueryConfig(**fields)  # pyright: ignore[reportArgumentType]
    except ValueError as wrong:
        raise InvalidQuery(str(wrong)) from None
    for shorter, longer in _ORDERED:
        if longer.name == "restartDelayMax" and config.restart_strategy is not RestartStrategy.EXPONENTIAL:
            continue  # The pause does not grow.
        if getattr(config, shorter.field) > getattr(config, longer.field):
            raise InvalidQuery(
                f"option {shorter.name} ({show_duration(getattr(config, shorter.field))}) is longer than "
                f"{longer.name} ({show_duration(getattr(config, longer.field))})"
            )
    return config


def _refuse_misspelt(name: str, plain: str) -> None:
    close = get_close_matches(plain, _BY_NAME, n=1, cutoff=0.85)
    if close:
        raise InvalidQuery(f"there is no option {name!r}", hint=f"did you mean {_BY_NAME[close[0]].name!r}?")
    if name.lower().startswith(_PREFIX):
        raise InvalidQuery(f"there is no option {name!r}", hint=f"the options are {', '.join(o.name for o in OPTIONS)}")
