"""In which way a query is run: what its input does, what may be promised, and how people configure it."""

from __future__ import annotations

import random
from dataclasses import dataclass

import msgspec

from tidegate.model.config import CheckpointMode, QueryConfig, RestartStrategy
from tidegate.testing.simulation.judging import Promise
from tidegate.testing.simulation.query import MAX_PARALLELISM


@dataclass(frozen=True, slots=True)
class Manner:
    """How the input of a run behaves, and what may be promised about its output."""

    promise: Promise = Promise.EXACTLY_ONCE
    bounded: bool = True
    idle_timeout_ms: int = 3_600_000
    pauses: bool = False
    """Sources fall silent and come back."""
    drain: bool = True
    """In a bounded run: all windows close at its end."""
    quick: bool = False
    """Checkpoints come often, batches are small, channels full: for short runs."""
    overtakes: bool = False
    """Barriers soon overtake rows, and channels hold many of them."""
    crowded: bool = False
    """There is much state: more rows at once, and more checkpoints."""


def random_config(manner: Manner, chance: random.Random) -> QueryConfig:
    """What a person may choose for a start."""
    config = _any_config(manner, chance)
    if manner.crowded:
        config = msgspec.structs.replace(
            config,
            checkpoint_interval_ms=300,
            batch_rows_max=chance.choice((60, 250)),
            capture_rows=chance.choice((20, 100, 1_000)),
        )
    if manner.overtakes:
        config = msgspec.structs.replace(config, aligned_timeout_ms=50, batch_rows_max=4, channel_batches_max=8)
    if not manner.quick:
        return config
    return msgspec.structs.replace(
        config,
        checkpoint_interval_ms=chance.choice((100, 300)),
        checkpoint_timeout_ms=2_000,
        backlog_checkpoint_interval_ms=0,
        message_repeat_ms=300,
        batch_rows_max=chance.choice((1, 1, 2, 4, 12)),
        channel_batches_max=chance.choice((1, 1, 2)),
        restart_delay_max_ms=300,
        restart_strategy=RestartStrategy.EXPONENTIAL,
        restart_attempts_max=1_000,
    )


def _any_config(manner: Manner, chance: random.Random) -> QueryConfig:
    pick = chance.choice
    # A pause is counted from the end of a checkpoint, so it goes with one at a time only.
    concurrent, pause_ms = pick(((1, 0), (1, 400), (2, 0), (3, 0)))
    at_least_once = manner.promise is Promise.AT_LEAST_ONCE
    return QueryConfig(
        max_parallelism=MAX_PARALLELISM,
        checkpoint_mode=CheckpointMode.AT_LEAST_ONCE if at_least_once else CheckpointMode.EXACTLY_ONCE,
        checkpoint_interval_ms=pick((300, 1_000)),
        backlog_checkpoint_interval_ms=pick((0, 2_000)),
        checkpoint_min_pause_ms=pause_ms,
        checkpoints_concurrent_max=concurrent,
        aligned_timeout_ms=pick((0, 50, 50, 500)),
        checkpoint_timeout_ms=4_000,
        checkpoint_failures_tolerated=pick((0, 2, 5)),
        checkpoints_retained=pick((1, 2, 3)),
        cleanup_timeout_ms=500,
        bounded=manner.bounded,
        drain=manner.drain,
        discovery_interval_ms=250,
        idle_timeout_ms=manner.idle_timeout_ms,
        message_repeat_ms=pick((300, 1_000)),
        batch_rows_max=pick((4, 12, 50)),
        capture_rows=pick((1, 3, 1_000)),
        channel_batches_max=pick((1, 2, 8)),
        restart_strategy=pick((*RestartStrategy, RestartStrategy.EXPONENTIAL)),
        restart_failures_max=3,
        restart_failure_window_ms=20_000,
        restart_delay_max_ms=3_000,
        restart_attempts_max=pick((3, 1_000)),
    )
