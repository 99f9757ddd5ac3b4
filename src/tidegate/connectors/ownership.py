"""Whose output something is: the names of a pipeline and a sink as parts of other names."""

from __future__ import annotations

import re

from tidegate.connectors.legacy import Sink
from tidegate.connectors.options import PIPELINE
from tidegate.model.errors import Bug


def pipeline_of(sink: Sink) -> str:
    """The pipeline that the sink belongs to. Only deployed sinks have one: before that, nothing can be staged."""
    pipeline = sink.options.get(PIPELINE)
    if not pipeline:
        raise Bug(f"{PIPELINE} is missing from the options of sink {sink.id}: the driver sets it before it deploys")
    return pipeline


def safe(text: str) -> str:
    """Keeps every character that ids are made of: two sinks of one pipeline never share a name."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", text)
