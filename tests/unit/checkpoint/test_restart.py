"""Again, when, or never again."""

from __future__ import annotations

import pytest

from tidegate.checkpoint.events import Failure
from tidegate.checkpoint.restart import NO_RESTARTS, Again, GiveUp, Restarts, decide, delay_ms
from tidegate.model.config import QueryConfig

CONFIG = QueryConfig(restart_delay_min_ms=100, restart_delay_max_ms=1_000, restart_attempts_max=5)
LOST = Failure("SLOT_LOST", "slot 3 fell silent")


def user_error(position: str, message: str = "boom") -> Failure:
    return Failure("USER_CODE_FAILED", message, operator="map-0", position=position)


def test_delays_double_up_to_the_limit() -> None:
    assert [delay_ms(CONFIG, n) for n in range(6)] == [100, 200, 400, 800, 1_000, 1_000]
    assert delay_ms(CONFIG, 10_000) == 1_000


def test_a_failure_that_retrying_cannot_mend_is_terminal_at_once() -> None:
    hopeless = Failure("INVALID_QUERY", "no", retryable=False)
    assert decide(CONFIG, NO_RESTARTS, hopeless) == GiveUp(hopeless)


def test_a_completed_checkpoint_forgives_failures_but_remembers_the_place() -> None:
    again = decide(CONFIG, NO_RESTARTS, user_error("row 7"))
    assert isinstance(again, Again)
    forgiven = again.restarts.completed()
    assert forgiven.in_a_row == 0
    assert isinstance(decide(CONFIG, forgiven, user_error("row 7")), GiveUp)
    assert isinstance(decide(CONFIG, forgiven, user_error("row 8")), Again)


@pytest.mark.parametrize("code", ["USER_CODE_FAILED", "DATA_ERROR"])
def test_the_same_user_error_without_a_position_is_recognised_by_its_message(code: str) -> None:
    error = Failure(code, "boom", operator="map-0")
    again = decide(CONFIG, NO_RESTARTS, error)
    assert isinstance(again, Again)
    assert isinstance(decide(CONFIG, again.restarts, error), GiveUp)
    assert isinstance(decide(CONFIG, again.restarts, Failure(code, "bang", operator="map-0")), Again)


def test_losing_the_same_slot_twice_is_no_user_error() -> None:
    again = decide(CONFIG, NO_RESTARTS, LOST)
    assert isinstance(again, Again)
    assert isinstance(decide(CONFIG, again.restarts, LOST), Again)


def test_a_slot_lost_in_between_does_not_hide_a_repeated_user_error() -> None:
    first = decide(CONFIG, NO_RESTARTS, user_error("row 7"))
    assert isinstance(first, Again)
    second = decide(CONFIG, first.restarts, LOST)
    assert isinstance(second, Again)
    assert isinstance(decide(CONFIG, second.restarts, user_error("row 7")), GiveUp)


def test_patience_ends_after_the_limit_in_a_row() -> None:
    last = decide(CONFIG, Restarts(in_a_row=5), LOST)
    assert isinstance(last, GiveUp)
    assert "slot 3 fell silent" in last.failure.message
    assert not last.failure.retryable
