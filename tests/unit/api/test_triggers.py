from __future__ import annotations

import pytest

from tidegate.api.triggers import parse_trigger
from tidegate.model.errors import InvalidQuery

NOTHING = dict.fromkeys(("checkpoint", "available_now", "processing_time", "once", "continuous", "real_time"))


def test_interval_and_end_may_be_combined():
    trigger = parse_trigger(**{**NOTHING, "checkpoint": "250 milliseconds", "available_now": True})
    assert trigger.config_fields() == {"checkpoint_interval_ms": 250, "bounded": True}


def test_without_a_trigger_the_default_interval_holds():
    assert parse_trigger(**NOTHING).config_fields() == {"bounded": False}


@pytest.mark.parametrize(
    ("argument", "value", "way_out"),
    [
        ("processing_time", "5 seconds", "trigger(checkpoint='5 seconds')"),
        ("continuous", "1 second", "trigger(checkpoint='1 second')"),
        ("once", True, "availableNow"),
        ("real_time", "5 minutes", "leave it out"),
    ],
)
def test_triggers_of_micro_batches_are_refused_with_the_way_out(argument, value, way_out):
    with pytest.raises(InvalidQuery) as refused:
        parse_trigger(**{**NOTHING, argument: value})
    assert way_out in refused.value.hint
