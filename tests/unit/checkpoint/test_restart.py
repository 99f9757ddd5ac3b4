"""Again, when, or never again."""

from __future__ import annotations

import pytest

from tidegate.checkpoint.events import Failure
from tidegate.checkpoint.restart import NO_RESTARTS, Again, GiveUp, Restarts, decide, delay_ms
from tidegate.model.config import QueryConfig, RestartStrategy

CONFIG = QueryConfig(restart_delay_min_ms=100, restart_delay_max_ms=1_000, restart_attempts_max=5)
LOST = Failure("SLOT_LOST", "slot 3 fell silent")


def user_error(position: str, message: str = "boom") -> Failure:
    return Failure("USER_CODE_FAILED", message, operator="map-0", position=position)


def test_delays_double_up_to_the_limit() -> None:
    assert [delay_ms(CONFIG, n) for n in range(6)] == [100, 200, 400, 800, 1_000, 1_000]
    assert delay_ms(CONFIG, 10_000) == 1_000


def test_a_failure_that_retrying_cannot_mend_is_terminal_at_once() -> None:
    hopeless = Failure("INVALID_QUERY", "no", retryable=False)
    assert decide(CONFIG, NO_RESTARTS, hopeless, 0) == GiveUp(hopeless)


def test_a_completed_checkpoint_forgives_failures_but_remembers_the_place() -> None:
    again = decide(CONFIG, NO_RESTARTS, user_error("row 7"), 0)
    assert isinstance(again, Again)
    forgiven = again.restarts.completed()
    assert forgiven.in_a_row == 0
    assert isinstance(decide(CONFIG, forgiven, user_error("row 7"), 0), GiveUp)
    assert isinstance(decide(CONFIG, forgiven, user_error("row 8"), 0), Again)


@pytest.mark.parametrize("code", ["USER_CODE_FAILED", "DATA_ERROR"])
def test_the_same_user_error_without_a_position_is_recognised_by_its_message(code: str) -> None:
    error = Failure(code, "boom", operator="map-0")
    again = decide(CONFIG, NO_RESTARTS, error, 0)
    assert isinstance(again, Again)
    assert isinstance(decide(CONFIG, again.restarts, error, 0), GiveUp)
    assert isinstance(decide(CONFIG, again.restarts, Failure(code, "bang", operator="map-0"), 0), Again)


def test_one_of_several_bad_rows_is_recognised_whichever_fails_first() -> None:
    restarts = NO_RESTARTS
    for row in ("row 7", "row 8", "row 9"):
        again = decide(CONFIG, restarts, user_error(row), 0)
        assert isinstance(again, Again)
        restarts = again.restarts
    assert isinstance(decide(CONFIG, restarts, user_error("row 8"), 0), GiveUp)


def test_losing_the_same_slot_twice_is_no_user_error() -> None:
    again = decide(CONFIG, NO_RESTARTS, LOST, 0)
    assert isinstance(again, Again)
    assert isinstance(decide(CONFIG, again.restarts, LOST, 0), Again)


def test_a_slot_lost_in_between_does_not_hide_a_repeated_user_error() -> None:
    first = decide(CONFIG, NO_RESTARTS, user_error("row 7"), 0)
    assert isinstance(first, Again)
    second = decide(CONFIG, first.restarts, LOST, 0)
    assert isinstance(second, Again)
    assert isinstance(decide(CONFIG, second.restarts, user_error("row 7"), 0), GiveUp)


def test_patience_ends_after_the_limit_in_a_row() -> None:
    last = decide(CONFIG, Restarts(in_a_row=5), LOST, 0)
    assert isinstance(last, GiveUp)
    assert "slot 3 fell silent" in last.failure.message
    assert not last.failure.retryable


def failures(config: QueryConfig, *at_ms: int) -> list[Again | GiveUp]:
    """The decisions about slots lost at these moments, as long as there is a restart."""
    decisions: list[Again | GiveUp] = []
    restarts = NO_RESTARTS
    for now_ms in at_ms:
        decisions.append(decision := decide(config, restarts, LOST, now_ms))
        if isinstance(decision, GiveUp):
            break
        restarts = decision.restarts
    return decisions


def delays(decisions: list[Again | GiveUp]) -> list[int | None]:
    return [one.delay_ms if isinstance(one, Again) else None for one in decisions]


def test_fixed_waits_the_same_every_time_and_its_patience_ends_too() -> None:
    config = QueryConfig(
        restart_strategy=RestartStrategy.FIXED,
        restart_delay_min_ms=700,
        restart_delay_max_ms=700,
        restart_attempts_max=3,
    )
    decisions = failures(config, 0, 1, 2, 3)
    assert delays(decisions) == [700, 700, 700, None]
    assert "after 3 restarts" in decisions[-1].failure.message  # type: ignore[union-attr]


def test_without_restarts_the_first_failure_is_the_last() -> None:
    (decision,) = failures(QueryConfig(restart_strategy=RestartStrategy.NONE), 0)
    assert isinstance(decision, GiveUp)
    assert "slot 3 fell silent" in decision.failure.message
    assert not decision.failure.retryable


def test_a_failure_rate_gives_up_when_too_many_come_within_the_window() -> None:
    config = QueryConfig(
        restart_strategy=RestartStrategy.FAILURE_RATE,
        restart_delay_min_ms=50,
        restart_failures_max=2,
        restart_failure_window_ms=1_000,
    )
    assert delays(failures(config, 0, 10, 20)) == [50, 50, None]
    assert delays(failures(config, 0, 10, 1_000, 1_010)) == [50, 50, 50, 50], "the first two are out of the window"
    assert delays(failures(config, 0, 10, 1_000, 1_009)) == [50, 50, 50, None]
    assert delays(failures(config, 5_000, 5_001, 0, 1)) == [50, 50, 50, 50], "a clock that steps back accuses nobody"


def test_a_failure_rate_does_not_care_how_many_restarts_brought_no_checkpoint() -> None:
    config = QueryConfig(
        restart_strategy=RestartStrategy.FAILURE_RATE, restart_attempts_max=0, restart_failure_window_ms=10
    )
    assert None not in delays(failures(config, *range(0, 1_000, 10)))


def test_a_completed_checkpoint_does_not_improve_the_failure_rate() -> None:
    config = QueryConfig(restart_strategy=RestartStrategy.FAILURE_RATE, restart_failures_max=1)
    first = decide(config, NO_RESTARTS, LOST, 0)
    assert isinstance(first, Again)
    assert isinstance(decide(config, first.restarts.completed(), LOST, 1), GiveUp)


@pytest.mark.parametrize("strategy", RestartStrategy)
def test_the_same_user_error_twice_is_terminal_under_every_strategy(strategy: RestartStrategy) -> None:
    config = QueryConfig(restart_strategy=strategy)
    first = decide(config, NO_RESTARTS, user_error("row 7"), 0)
    if strategy is RestartStrategy.NONE:
        assert isinstance(first, GiveUp)
        return
    assert isinstance(first, Again)
    assert isinstance(decide(config, first.restarts, user_error("row 7"), 3_600_000), GiveUp)
