"""The Nexmark queries over the generated auction house: what they ask, how to run them, and how to judge the answer."""

from tidegate.nexmark.catalogue import QUERIES, NexmarkQuery, find_query
from tidegate.nexmark.running import Outcome, RunSettings, run

__all__ = ["QUERIES", "NexmarkQuery", "Outcome", "RunSettings", "find_query", "run"]
