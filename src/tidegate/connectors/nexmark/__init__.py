"""Nexmark: the benchmark stream of an auction house, generated."""

from tidegate.connectors.nexmark.datasource import NexmarkDataSource, register

__all__ = ["NexmarkDataSource", "register"]
