"""``trigger(...)``: how often checkpoints are taken, and whether the query ends when its input is read."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.api.durations import parse_duration_ms
from tidegate.model.errors import InvalidQuery


@dataclass(frozen=True, slots=True)
class Trigger:
    checkpoint_interval_ms: int | None = None
    available_now: bool = False

    def config_fields(self) -> dict[str, object]:
        fields: dict[str, object] = {"bounded": self.available_now}
        if self.checkpoint_interval_ms is not None:
            fields["checkpoint_interval_ms"] = self.checkpoint_interval_ms
        return fields


def parse_trigger(
    *,
    checkpoint: str | None = None,
    available_now: bool | None = None,
    processing_time: str | None = None,
    once: bool | None = None,
    continuous: str | None = None,
    real_time: object = None,
) -> Trigger:
    """Raises InvalidQuery for the triggers of micro-batches, which have no meaning here."""
    if processing_time is not None:
        raise InvalidQuery(
            f"trigger(processingTime={processing_time!r}) asks for micro-batches; records flow continuously here",
            hint=f"leave it out, or write trigger(checkpoint={processing_time!r}) to make results visible that often",
        )
    if continuous is not None:
        raise InvalidQuery(
            f"trigger(continuous={continuous!r}) is Spark's continuous mode; every query here is continuous",
            hint=f"write trigger(checkpoint={continuous!r})",
        )
    if real_time is not None:
        raise InvalidQuery(
            "trigger(realTime=...) is Spark's real-time mode; every query here runs in real time",
            hint='leave it out; trigger(checkpoint="1 second") sets how often checkpoints are taken',
        )
    if once:
        raise InvalidQuery("trigger(once=True) is not supported", hint="write trigger(availableNow=True)")
    interval_ms = parse_duration_ms(checkpoint, "trigger(checkpoint=...)") if checkpoint is not None else None
    return Trigger(interval_ms, bool(available_now))
