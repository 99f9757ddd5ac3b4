"""The head of a stream: asks for splits, reads them in turn, and knows where it stands."""

from tidegate.operators.source.open_split import Idleness as Idleness
from tidegate.operators.source.operator import POLL_MAX_MS as POLL_MAX_MS
from tidegate.operators.source.operator import POLL_MIN_MS as POLL_MIN_MS
from tidegate.operators.source.operator import FromSource as FromSource
from tidegate.operators.source.operator import SourceOperator as SourceOperator
from tidegate.operators.source.supply import ASK_AGAIN_MS as ASK_AGAIN_MS
from tidegate.operators.source.supply import SPLITS_AHEAD as SPLITS_AHEAD
