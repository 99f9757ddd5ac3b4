"""Whether a failed attempt is followed by another one, and when."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from tidegate.checkpoint.events import Failure
from tidegate.model.config import QueryConfig, RestartStrategy
from tidegate.model.errors import DataError, UserCodeFailed

USER_ERRORS_MAX = 32
_OF_THE_USER = frozenset({UserCodeFailed.code, DataError.code})


@dataclass(frozen=True, slots=True)
class Restarts:
    """Memory of the failures so far; survives the attempts of one driver process."""

    in_a_row: int = 0
    """Restarts since the last completed checkpoint."""
    user_errors: tuple[tuple[str, str, str], ...] = ()
    """Code, operator and place of the last errors in user code or data. More than one: behind an exchange rows arrive in another
    order each time, so that of several bad rows another one may be the first to fail."""
    recent_ms: tuple[int, ...] = ()
    """Moments of the last failures, as far back as a failure rate looks."""

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


def decide(config: QueryConfig, restarts: Restarts, failure: Failure, now_ms: int) -> Decision:
    """Terminal when retrying cannot help, when user code fails twice at the same place, or when the strategy's patience
    ends: after too many restarts in a row that brought no checkpoint, or too many failures within a while."""
    if not failure.retryable:
        return GiveUp(failure)
    seen = restarts.user_errors
    if failure.code in _OF_THE_USER:
        # Without a position the message is the best place we have.
        place = (failure.code, failure.operator, failure.position or failure.message)
        if place in seen:
            return GiveUp(failure)
        seen = (*seen, place)[-USER_ERRORS_MAX:]
    again = replace(restarts, in_a_row=restarts.in_a_row + 1, user_errors=seen)
    match config.restart_strategy:
        case RestartStrategy.NONE:
            return _give_up(failure, "Restarts are switched off.")
        case RestartStrategy.FAILURE_RATE:
            window_ms = config.restart_failure_window_ms
            recent_ms = (*(at_ms for at_ms in restarts.recent_ms if 0 <= now_ms - at_ms < window_ms), now_ms)
            if len(recent_ms) > config.restart_failures_max:
                return _give_up(failure, f"Given up after {len(recent_ms)} failures within {window_ms / 1_000:g} s.")
            return Again(config.restart_delay_min_ms, replace(again, recent_ms=recent_ms))
        case RestartStrategy.EXPONENTIAL | RestartStrategy.FIXED:
            if restarts.in_a_row >= config.restart_attempts_max:
                return _give_up(failure, f"Given up after {restarts.in_a_row} restarts without a completed checkpoint.")
            return Again(delay_ms(config, restarts.in_a_row), again)


def _give_up(failure: Failure, why: str) -> GiveUp:
    return GiveUp(replace(failure, message=f"{failure.message}\n{why}", retryable=False))


def delay_ms(config: QueryConfig, restarts_before: int) -> int:
    """How long to wait before the next restart when ``restarts_before`` in a row came before it."""
    if config.restart_strategy is not RestartStrategy.EXPONENTIAL:
        return config.restart_delay_min_ms
    # The exponent is capped so that a large limit of restarts cannot overflow the float.
    delay = config.restart_delay_min_ms * config.restart_delay_factor ** min(restarts_before, 64)
    return int(min(delay, config.restart_delay_max_ms))
