"""Aggregate functions as mergeable accumulators."""

from tidegate.operators.accumulators.protocol import Accumulator
from tidegate.operators.accumulators.registry import FUNCTIONS, accumulator_of, supported

__all__ = ["FUNCTIONS", "Accumulator", "accumulator_of", "supported"]
