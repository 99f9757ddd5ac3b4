"""Whether a failed attempt is followed by another one, and when."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from tidegate.checkpoint.events import Failure
from tidegate.model.config import QueryConfig
from tidegate.model.errors import DataError, UserCodeFailed

_OF_THE_USER = frozenset({UserCodeFailed.code, DataError.code})


@dataclass(frozen=True, slots=True)
class Restarts:
    """Memory of the failures so far; survives the attempts of one driver process."""

    in_a_row: int = 0
    """Restarts since the last completed checkpoint."""
    user_error: tuple[str, str, str] | None = None
    """Code, operator and place of the last error in user code or data."""

    def completed(self) -> Restarts:
        """A checkpoint completed: the back-off starts afresh. The place of a user error stays in mind: input behind
        the new checkpoint is not read again, so the same place can only fail twice if nothing got past it."""
        return self if self.in_a_row == 0 else replace(self, in_a_row=0)


NO_RESTARTS = Restarts()


@dataclass(frozen=True, slots=True)
class Again:
    delay_ms: int
    restarts: Restarts


@dataclass(frozen=True, slots=True)
class GiveUp:
    failure: Failure


Decision: TypeAlias = Again | GiveUp


def decide(config: QueryConfig, restarts: Restarts, failure: Failure) -> Decision:
    """Exponential back-off; terminal when retrying cannot help, when user code fails twice at the same place, or when
    too many restarts in a row brought no checkpoint."""
    if not failure.retryable:
        return GiveUp(failure)
    seen = restarts.user_error
    if failure.code in _OF_THE_USER:
        # Without a position the message is the best place we have.
        seen = (failure.code, failure.operator, failure.position or failure.message)
        if seen == restarts.user_error:
            return GiveUp(failure)
    if restarts.in_a_row >= config.restart_attempts_max:
        return GiveUp(
            replace(
                failure,
                message=f"{failure.message}\nGiven up after {restarts.in_a_row} restarts without a completed checkpoint.",
                retryable=False,
            )
        )
    return Again(delay_ms(config, restarts.in_a_row), Restarts(restarts.in_a_row + 1, seen))


def delay_ms(config: QueryConfig, restarts_before: int) -> int:
    """How long to wait before the next restart when ``restarts_before`` in a row came before it."""
    # The exponent is capped so that a large limit of restarts cannot overflow the float.
    delay = config.restart_delay_min_ms * config.restart_delay_factor ** min(restarts_before, 64)
    return int(min(delay, config.restart_delay_max_ms))
