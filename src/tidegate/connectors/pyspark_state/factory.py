"""Which processor runs a stateful node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.connectors.pyspark_state.apply import ApplyProcessor
from tidegate.connectors.pyspark_state.transform import TransformProcessor
from tidegate.operators.stateful.keyed_state import KeyedState
from tidegate.operators.stateful.processor import Processor
from tidegate.plan.keyed import StatefulKind, StatefulProcess


def processor(node: StatefulProcess, state: KeyedState, function: Callable[..., Any]) -> Processor:
    """A ``ProcessorFactory``."""
    kind = ApplyProcessor if node.kind is StatefulKind.APPLY_PANDAS else TransformProcessor
    return kind(node, state, function)
