"""Every knob of a running query, validated, with its default. ``api/options.py`` names the user's options for them."""

from __future__ import annotations

from enum import Enum

import msgspec


class CheckpointMode(Enum):
    """What the channels promise around a barrier."""

    EXACTLY_ONCE = "exactly-once"
    """A channel in which the barrier stands is left unread until it stands in all of them."""
    AT_LEAST_ONCE = "at-least-once"
    """Nothing is held: rows behind a barrier may be in the snapshot and come again after a restore."""


class WatermarkPolicy(Enum):
    """Which of several watermarks counts where streams meet: ``spark.sql.streaming.multipleWatermarkPolicy``."""

    MIN = "min"
    """The slowest stream's: nothing that is on time in its own stream is late."""
    MAX = "max"
    """The fastest stream's: rows of the others may be late."""


class RestartStrategy(Enum):
    """Whether and when a failed attempt is followed by another."""

    EXPONENTIAL = "exponential"
    FIXED = "fixed"
    FAILURE_RATE = "failure-rate"
    NONE = "none"


class QueryConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Immutable for the life of a query; shipped to the slots with the graph."""

    parallelism: int = 0
    """Slots. 0: as many as the cluster has task slots."""
    max_parallelism: int = 128
    """Key groups; fixed at the first start of a pipeline."""
    checkpoint_mode: CheckpointMode = CheckpointMode.EXACTLY_ONCE
    checkpoint_interval_ms: int = 1_000
    backlog_checkpoint_interval_ms: int = 0
    """Interval while sources are far behind; 0: the same as always."""
    checkpoint_min_pause_ms: int = 0
    """Least time from the end of a checkpoint to the next trigger."""
    checkpoints_concurrent_max: int = 1
    """Checkpoints whose barriers may travel at once."""
    aligned_timeout_ms: int = 0
    """A barrier that has not got through after this long overtakes the rows before it, which become part of the
    snapshot; 0: never."""
    checkpoint_timeout_ms: int = 300_000
    """From trigger to the last acknowledgement; ends when storing the manifest starts."""
    checkpoint_failures_tolerated: int = 3
    """Checkpoints in a row that may time out or fail to be stored before the attempt is restarted."""
    checkpoints_retained: int = 3
    cleanup_timeout_ms: int = 30_000
    bounded: bool = False
    """``trigger(availableNow=True)``: read what is there, then end."""
    drain: bool = False
    """``option("atEnd", "drain")``: a final watermark closes all windows at the end."""
    discovery_interval_ms: int = 250
    """How often sources look for new input."""
    watermark_policy: WatermarkPolicy = WatermarkPolicy.MIN
    idle_timeout_ms: int = 10_000
    """A log whose source has answered for this long that nothing is there stops holding back the others of its stream; never in bounded
    runs, and files need none: what is unread is known."""
    idle_stream_timeout_ms: int = 0
    """A stream that has been quiet for this long no longer holds back those it meets; 0: it holds them, as in Spark."""
    state_backend: str = "memory"
    """Where stateful processors keep their entries: ``memory`` or ``rocksdb``."""
    batch_rows_max: int = 32_768
    """Most rows a source hands out at once."""
    capture_rows: int = 16_384
    """Rows of keyed state walked over at once while a snapshot is copied."""
    complete_rows_max: int = 1_000_000
    """Most rows of a result that leaves whole (output mode ``complete``), per slot."""
    broadcast_bytes_max: int = 32 * 1024 * 1024
    """Static sides of joins up to this size are held whole by every slot; larger ones are partitioned by key."""
    channel_batches_max: int = 16
    channel_bytes_max: int = 16 * 1024 * 1024
    """Credit per channel, in batches and in bytes, whichever is used up first."""
    channel_time_max_ms: int = 1_000
    """Rows under way in a channel are bounded to about as many as its reader takes in this long; 0: by credit alone."""
    heartbeat_interval_ms: int = 500
    silence_timeout_ms: int = 8_000
    """A peer not heard of for this long is gone."""
    deploy_timeout_ms: int = 120_000
    message_repeat_ms: int = 2_000
    """A control message without an answer is sent again after this long."""
    sync_timeout_ms: int = 60_000
    """A snapshot call that keeps the loop of a slot for longer ends the attempt."""
    upload_timeout_ms: int = 300_000
    """A snapshot that is not stored after this long is declined."""
    commit_timeout_ms: int = 300_000
    """A commit without an answer for this long is reported as a failed try."""
    unhealthy_after_ms: int = 0
    """Without a completed checkpoint for this long a running query is unhealthy; 0: ten intervals, at least 30 s."""
    dead_letter: str = ""
    """Directory for rows whose user function raises; empty: the error ends the attempt."""
    allow_dropped_state: bool = False
    """State of an operator that the query no longer has is given up instead of refused."""
    drop_in_flight: bool = False
    """Rows that a barrier overtook are given up where the query has changed so that they do not fit; False: it is refused."""
    restart_strategy: RestartStrategy = RestartStrategy.EXPONENTIAL
    restart_failures_max: int = 3
    """Failure rate: more failures than this …"""
    restart_failure_window_ms: int = 600_000
    """… within this long end the query."""
    restart_delay_min_ms: int = 100
    restart_delay_max_ms: int = 60_000
    restart_delay_factor: float = 2.0
    restart_attempts_max: int = 20
    """Consecutive restarts without a completed checkpoint between them."""
    progress_interval_ms: int = 1_000

    @property
    def commit_within_ms(self) -> int:
        """What may lie between the first row of a checkpoint and its commit, a restart in between included."""
        interval_ms = max(self.checkpoint_interval_ms, self.backlog_checkpoint_interval_ms)
        return interval_ms + self.checkpoint_timeout_ms + self.restart_delay_max_ms

    def __post_init__(self) -> None:
        if not 1 <= self.max_parallelism <= 32_768:
            raise ValueError(f"maxParallelism must be between 1 and 32768, not {self.max_parallelism}")
        if not 0 <= self.parallelism <= self.max_parallelism:
            raise ValueError(
                f"parallelism must be between 1 and maxParallelism ({self.max_parallelism}), not {self.parallelism}"
            )
        for name in (
            "checkpoint_interval_ms",
            "checkpoint_timeout_ms",
            "checkpoints_retained",
            "batch_rows_max",
            "checkpoints_concurrent_max",
            "message_repeat_ms",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.checkpoint_min_pause_ms and self.checkpoints_concurrent_max > 1:
            raise ValueError(
                "checkpointMinPause counts from the end of a checkpoint to the next start, so only one can be in flight: "
                f"leave it out, or set checkpointsConcurrent to 1 instead of {self.checkpoints_concurrent_max}"
            )
