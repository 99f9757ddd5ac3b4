"""Every option of a query: its name, meaning, default and range. The rest of the user's options belong to the sink.

Names are matched without regard to case, as Spark does. An option that is not ours goes to the sink, unless it looks like one of
ours misspelt: then it is refused, because ``.option("paralelism", 4)`` must not run with the default.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches

import msgspec

from tidegate.api.durations import parse_duration_ms, show_duration
from tidegate.model.config import QueryConfig
from tidegate.model.errors import InvalidQuery


@dataclass(frozen=True, slots=True)
class Option:
    """``field``: where it lands in QueryConfig; empty for options that the writer itself looks at."""

    name: str
    field: str
    parse: Callable[[object, str], object]
    meaning: str


def _whole_number(least: int) -> Callable[[object, str], int]:
    def parse(text: object, what: str) -> int:
        try:
            number = int(str(text).strip())
        except ValueError:
            number = least - 1
        if number < least:
            raise InvalidQuery(f"{what} must be a whole number of at least {least}, not {text!r}")
        return number

    return parse


def _factor(text: object, what: str) -> float:
    try:
        number = float(str(text))
    except ValueError:
        number = 0.0
    if not 1.0 <= number <= 100.0:
        raise InvalidQuery(f"{what} must be a number between 1 and 100, not {text!r}")
    return number


def _one_of(*words: str) -> Callable[[object, str], str]:
    def parse(text: object, what: str) -> str:
        word = str(text).strip().lower()
        if word not in words:
            raise InvalidQuery(f"{what} must be one of {', '.join(words)}, not {text!r}")
        return word

    return parse


def _drain(text: object, what: str) -> bool:
    return _one_of("keep", "drain")(text, what) == "drain"


def _text(text: object, what: str) -> str:
    if not str(text).strip():
        raise InvalidQuery(f"{what} is empty")
    return str(text)


OPTIONS: tuple[Option, ...] = (
    Option(
        "checkpointLocation", "", _text, "where checkpoints live; a query restarted on the same place continues there"
    ),
    Option(
        "onCorruptCheckpoint",
        "",
        _one_of("fail", "fallback"),
        "fallBack: restore an older checkpoint though output may repeat; fail: stop and say so",
    ),
    Option(
        "progress", "", _one_of("live", "plain", "off"), "progress on the screen: a live table, plain lines, or nothing"
    ),
    Option(
        "parallelism", "parallelism", _whole_number(1), "slots, one task each; default: all task slots of the cluster"
    ),
    Option(
        "maxParallelism",
        "max_parallelism",
        _whole_number(1),
        "key groups, the most slots ever; fixed at the first start",
    ),
    Option(
        "atEnd", "drain", _drain, "drain: close all windows when the input ends; keep: leave them for the next start"
    ),
    Option("checkpointTimeout", "checkpoint_timeout_ms", parse_duration_ms, "give a checkpoint up after this long"),
    Option("checkpointsRetained", "checkpoints_retained", _whole_number(1), "completed checkpoints kept"),
    Option(
        "cleanupTimeout",
        "cleanup_timeout_ms",
        parse_duration_ms,
        "most time one round of deleting old checkpoints takes",
    ),
    Option("discoveryInterval", "discovery_interval_ms", parse_duration_ms, "how often sources look for new input"),
    Option(
        "idleTimeout",
        "idle_timeout_ms",
        parse_duration_ms,
        "a source without rows this long stops holding watermarks back",
    ),
    Option("batchRowsMax", "batch_rows_max", _whole_number(1), "most rows a source hands out at once"),
    Option("channelBatchesMax", "channel_batches_max", _whole_number(1), "batches under way in one channel"),
    Option("channelBytesMax", "channel_bytes_max", _whole_number(1024), "bytes under way in one channel"),
    Option(
        "heartbeatInterval", "heartbeat_interval_ms", parse_duration_ms, "how often driver and slots say that they live"
    ),
    Option(
        "silenceTimeout", "silence_timeout_ms", parse_duration_ms, "a slot or driver not heard of for this long is gone"
    ),
    Option(
        "deployTimeout",
        "deploy_timeout_ms",
        parse_duration_ms,
        "most time from submitting the slots to all of them running",
    ),
    Option("restartDelayMin", "restart_delay_min_ms", parse_duration_ms, "pause before the first restart"),
    Option("restartDelayMax", "restart_delay_max_ms", parse_duration_ms, "longest pause between restarts"),
    Option("restartDelayFactor", "restart_delay_factor", _factor, "growth of that pause"),
    Option(
        "restartAttempts", "restart_attempts_max", _whole_number(0), "restarts in a row without a completed checkpoint"
    ),
    Option("progressInterval", "progress_interval_ms", parse_duration_ms, "how often progress is reported"),
)
_BY_NAME = {option.name.lower(): option for option in OPTIONS}
_PREFIX = "tidegate."


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """The user's options, sorted by whom they concern."""

    config: dict[str, object]
    """Fields of QueryConfig that the user set."""
    checkpoint_location: str | None
    progress: str | None
    accept_duplicates: bool
    sink: dict[str, str]
    """All others, under the names the user gave."""


def sort_options(given: dict[str, object]) -> QueryOptions:
    """Checks every option. Raises InvalidQuery for a bad value or a misspelt name."""
    config: dict[str, object] = {}
    own: dict[str, str] = {}
    sink: dict[str, str] = {}
    for name, value in given.items():
        plain = name.lower().removeprefix(_PREFIX)
        option = _BY_NAME.get(plain)
        if option is None:
            _refuse_misspelt(name, plain)
            sink[name] = to_text(value)
            continue
        parsed = option.parse(value, f"option {option.name}")
        if option.field:
            config[option.field] = parsed
        else:
            own[option.name] = str(parsed)
    return QueryOptions(
        config, own.get("checkpointLocation"), own.get("progress"), own.get("onCorruptCheckpoint") == "fallback", sink
    )


def to_config(fields: dict[str, object]) -> QueryConfig:
    try:
        return QueryConfig(**fields)  # pyright: ignore[reportArgumentType]
    except ValueError as wrong:
        raise InvalidQuery(str(wrong)) from None


def to_text(value: object) -> str:
    """An option's value as Spark writes it: ``True`` is ``true``."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def describe_options() -> str:
    """The table of the reference documentation."""
    defaults = msgspec.structs.asdict(QueryConfig())
    lines = ["| option | default | meaning |", "| --- | --- | --- |"]
    for option in OPTIONS:
        default = defaults.get(option.field, "")
        if option.field.endswith("_ms"):
            default = show_duration(default)
        elif option.field == "drain":
            default = "keep"
        elif option.field == "parallelism":
            default = "all slots"
        lines.append(f"| `{option.name}` | {default} | {option.meaning} |")
    return "\n".join(lines)


def _refuse_misspelt(name: str, plain: str) -> None:
    close = get_close_matches(plain, _BY_NAME, n=1, cutoff=0.85)
    if close:
        raise InvalidQuery(f"there is no option {name!r}", hint=f"did you mean {_BY_NAME[close[0]].name!r}?")
    if name.lower().startswith(_PREFIX):
        raise InvalidQuery(f"there is no option {name!r}", hint=f"the options are {', '.join(o.name for o in OPTIONS)}")
