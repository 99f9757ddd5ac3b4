"""Every option of a query: its name, range, default and meaning."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tidegate.api.durations import show_duration
from tidegate.api.ranges import (
    A_PATH,
    ANY_COUNT,
    ANY_DURATION,
    OFF,
    YES_OR_NO,
    Duration,
    Number,
    OneOf,
    Range,
    WholeNumber,
    choices_of,
    words,
)
from tidegate.model.config import CheckpointMode, QueryConfig, RestartStrategy


@dataclass(frozen=True, slots=True)
class Option:
    """``field``: where it lands in QueryConfig; empty for options that the writer itself looks at."""

    name: str
    field: str
    range: Range
    meaning: str
    default: str = ""
    """For people, where the value in QueryConfig does not say it."""


NOT_OPTIONS: dict[str, str] = {
    "checkpoint_interval_ms": "trigger(checkpoint=…)",
    "bounded": "trigger(availableNow=True)",
    "capture_rows": "how finely the copying of state is cut; tests make it small",
    "watermark_policy": "spark.sql.streaming.multipleWatermarkPolicy of the session",
    "message_repeat_ms": "how the driver speaks to its slots; nothing a user could observe",
}
"""Settings without an option, and why."""

_OFF_OR = Duration(may_be_off=True)

OPTIONS: tuple[Option, ...] = (
    # --- where and from what
    Option(
        "checkpointLocation",
        "",
        A_PATH,
        "where checkpoints live: a directory, `s3://…`, `gs://…`, `az://…` or `hdfs://…`; a query restarted on the same place continues there",
    ),
    Option(
        "startFrom",
        "",
        A_PATH,
        "a savepoint, or `<location>/checkpoints/<checkpoint>-<attempt>`, that the first start at a new location begins with",
        default="nothing",
    ),
    Option(
        "startFromMode",
        "",
        words("leave", "claim"),
        "claim: the savepoint is deleted once it has been imported; leave: it is never touched",
        default="leave",
    ),
    Option(
        "allowDroppedState",
        "allow_dropped_state",
        YES_OR_NO,
        "true: state of operators that the query no longer has is given up; false: it is an error",
    ),
    Option(
        "inFlightRows",
        "drop_in_flight",
        OneOf({"keep": False, "drop": True}),
        "drop: a query that has changed starts although barriers overtook rows that do not fit it, and gives those rows up; "
        "keep: it is an error",
        default="keep",
    ),
    Option(
        "onCorruptCheckpoint",
        "",
        words("fail", "fallBack"),
        "fallBack: restore an older checkpoint though output may repeat; fail: stop and say so",
        default="fail",
    ),
    # --- size
    Option(
        "parallelism",
        "parallelism",
        WholeNumber(1, 32_768),
        "slots, one task each, at most maxParallelism",
        default="all slots",
    ),
    Option(
        "maxParallelism",
        "max_parallelism",
        WholeNumber(1, 32_768),
        "key groups, the most slots ever; fixed at the first start",
    ),
    Option("batchRowsMax", "batch_rows_max", WholeNumber(1, 10_000_000), "most rows a source hands out at once"),
    Option(
        "completeRowsMax",
        "complete_rows_max",
        WholeNumber(1, 1 << 40),
        "most rows of a result in output mode complete, per slot: all of them leave at every checkpoint",
    ),
    Option(
        "stateBackend",
        "state_backend",
        words("memory", "rocksdb"),
        "where stateful processors keep their state; rocksdb: on disk, beyond memory (needs tidegate[rocksdb])",
    ),
    Option(
        "broadcastMax",
        "broadcast_bytes_max",
        WholeNumber(0, 1 << 40),
        "bytes of a join's static side that every slot may hold whole; a larger one is partitioned by key over the slots",
    ),
    Option("channelBatchesMax", "channel_batches_max", WholeNumber(1, 10_000), "batches under way in one channel"),
    Option("channelBytesMax", "channel_bytes_max", WholeNumber(1_024, 1 << 30), "bytes under way in one channel"),
    Option(
        "channelTimeMax",
        "channel_time_max_ms",
        _OFF_OR,
        "rows under way in one channel are bounded to what its reader takes in this long, so that barriers get through; "
        "off: by batches and bytes alone",
    ),
    # --- checkpoints
    Option(
        "checkpointMode",
        "checkpoint_mode",
        choices_of(CheckpointMode),
        "at-least-once: barriers hold nothing back, rows may count twice after a failure",
    ),
    Option(
        "backlogCheckpointInterval",
        "backlog_checkpoint_interval_ms",
        _OFF_OR,
        "interval while sources are far behind; off: the same as always",
    ),
    Option(
        "checkpointMinPause",
        "checkpoint_min_pause_ms",
        _OFF_OR,
        "least time from the end of a checkpoint to the start of the next",
    ),
    Option(
        "checkpointsConcurrent",
        "checkpoints_concurrent_max",
        WholeNumber(1, 16),
        "checkpoints whose barriers may travel at once",
    ),
    Option(
        "alignedTimeout",
        "aligned_timeout_ms",
        _OFF_OR,
        "a barrier held up for this long overtakes the rows before it, which become part of the checkpoint",
    ),
    Option("checkpointTimeout", "checkpoint_timeout_ms", ANY_DURATION, "give a checkpoint up after this long"),
    Option(
        "checkpointFailuresTolerated",
        "checkpoint_failures_tolerated",
        WholeNumber(0, 1_000_000),
        "checkpoints in a row that may time out or fail to be stored before the slots are restarted",
    ),
    Option("checkpointsRetained", "checkpoints_retained", WholeNumber(1, 1_000), "completed checkpoints kept"),
    Option("cleanupTimeout", "cleanup_timeout_ms", ANY_DURATION, "most time one round of deleting takes"),
    Option(
        "atEnd",
        "drain",
        OneOf({"keep": False, "drain": True}),
        "drain: close all windows when the input ends; keep: leave them for the next start",
        default="keep",
    ),
    # --- sources and rows
    Option("discoveryInterval", "discovery_interval_ms", ANY_DURATION, "how often sources look for new input"),
    Option(
        "idleTimeout",
        "idle_timeout_ms",
        ANY_DURATION,
        "a log (a Kafka partition) whose source answers for this long that nothing is there stops holding back the others of its stream",
    ),
    Option(
        "idleStreamTimeout",
        "idle_stream_timeout_ms",
        _OFF_OR,
        "a stream that is quiet this long stops holding back those it meets; its next rows may then be late",
        default="off",
    ),
    Option(
        "deadLetter",
        "dead_letter",
        A_PATH,
        "directory for rows whose user function raises (JSON lines, exactly once); without it such a row ends the query",
        default="none",
    ),
    # --- watchdogs
    Option("heartbeatInterval", "heartbeat_interval_ms", ANY_DURATION, "how often driver and slots say that they live"),
    Option(
        "silenceTimeout",
        "silence_timeout_ms",
        ANY_DURATION,
        "a slot or driver not heard of for this long is gone; longer than heartbeatInterval",
    ),
    Option(
        "deployTimeout", "deploy_timeout_ms", ANY_DURATION, "most time from submitting the slots to all of them running"
    ),
    Option(
        "syncTimeout",
        "sync_timeout_ms",
        ANY_DURATION,
        "a snapshot that keeps a slot from its rows for longer restarts it",
    ),
    Option("uploadTimeout", "upload_timeout_ms", ANY_DURATION, "a snapshot not stored after this long is given up"),
    Option(
        "commitTimeout", "commit_timeout_ms", ANY_DURATION, "a commit without an answer for this long counts as failed"
    ),
    Option(
        "unhealthyAfter",
        "unhealthy_after_ms",
        ANY_DURATION,
        "without a completed checkpoint for this long a running query is unhealthy; so it is when a source that does not answer "
        "has held event time back for this long (30 s)",
        default="ten intervals, at least 30 s",
    ),
    # --- restarts
    Option(
        "restartStrategy",
        "restart_strategy",
        choices_of(RestartStrategy),
        "whether and when a failed attempt is followed by another",
    ),
    Option(
        "restartDelayMin",
        "restart_delay_min_ms",
        ANY_DURATION,
        "pause before a restart: the first one (exponential), each one (fixed, failure-rate)",
    ),
    Option("restartDelayMax", "restart_delay_max_ms", ANY_DURATION, "longest pause between restarts (exponential)"),
    Option("restartDelayFactor", "restart_delay_factor", Number(1, 100), "growth of that pause"),
    Option(
        "restartAttempts",
        "restart_attempts_max",
        WholeNumber(0, 1_000_000),
        "restarts in a row without a completed checkpoint",
    ),
    Option(
        "restartFailuresMax", "restart_failures_max", ANY_COUNT, "failure-rate: more failures than this end the query …"
    ),
    Option("restartFailureWindow", "restart_failure_window_ms", ANY_DURATION, "… when they come within this long"),
    # --- on the screen
    Option(
        "progress",
        "",
        words("live", "plain", "off"),
        "progress on the screen: a live table, plain lines, or nothing",
        default="off",
    ),
    Option("progressInterval", "progress_interval_ms", ANY_DURATION, "how often progress is reported"),
)


def describe_options() -> str:
    """The table of the reference documentation."""
    lines = ["| option | range | default | meaning |", "| --- | --- | --- | --- |"]
    lines += [f"| `{o.name}` | {o.range} | {_show_default(o)} | {o.meaning} |" for o in OPTIONS]
    lines.append(
        "| `uid.<operator>` | a name | the operator's id | under which its state is stored; `<operator>`: the id that "
        "`explain()` shows, or a kind (`source`, `watermark`, `aggregate`, `sink`) if there is one of it |"
    )
    lines.append(
        "| `storage.<name>` | | | how the stores of checkpoints, savepoints and files are reached: endpoint, credentials, timeouts; "
        "[all of them](../connectors/storage.md#options) |"
    )
    return "\n".join(lines)


def to_text(value: object) -> str:
    """An option's value as Spark writes it: ``True`` is ``true``."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _show_default(option: Option) -> str:
    if option.default or not option.field:
        return option.default
    match getattr(QueryConfig(), option.field):
        case Enum() as chosen:
            return str(chosen.value)
        case bool() as yes:
            return to_text(yes)
        case 0 if option.field.endswith("_ms"):
            return OFF
        case int() as duration_ms if option.field.endswith("_ms"):
            return show_duration(duration_ms)
        case value:
            return str(value)
