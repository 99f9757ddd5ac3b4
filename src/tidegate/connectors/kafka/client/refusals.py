"""What brokers refuse, or do not do, in the words of the query."""

from __future__ import annotations

from tidegate.connectors.kafka.protocol.errors import NOT_ALLOWED, Code, name_of
from tidegate.model.errors import DataError, InvalidQuery, TidegateError, Unavailable


def explained(code: int, where: str, topic: str = "", trouble: str = "", text: str = "") -> TidegateError:
    """``code``: of the protocol. ``text``: what is known beyond it; ``trouble``: what happened before."""
    text = text or name_of(code)
    place = _place(where, topic)
    match code:
        case Code.UNKNOWN_TOPIC_OR_PARTITION:
            return InvalidQuery(f"{place}: {text}", hint="create the topic, or see option and column 'topic'")
        case Code.INVALID_TOPIC:
            return DataError(f"{place}: {topic!r} cannot be the name of a Kafka topic", hint="see column 'topic'")
        case Code.MESSAGE_TOO_LARGE | Code.RECORD_LIST_TOO_LARGE:
            return DataError(
                f"{place}: a message is larger than allowed: {text}",
                hint="raise kafka.max.request.size here, and max.message.bytes of the topic",
            )
        case code if code in NOT_ALLOWED:
            return InvalidQuery(f"{place}: {text}", hint="the user needs more rights: see the cluster's ACLs")
        case Code.INVALID_TRANSACTION_TIMEOUT:
            return InvalidQuery(
                f"{place}: {text}",
                hint="kafka.transaction.timeout.ms must not exceed transaction.max.timeout.ms of the brokers",
            )
        case _:
            more = f" ({trouble})" if trouble and trouble != text else ""
            return Unavailable(f"{place}: {text}{more}", hint="the query goes on from its last checkpoint")


def no_such_partition(where: str, topic: str) -> DataError:
    return DataError(
        f"{_place(where, topic)}: a row names a partition that does not exist", hint="see column 'partition'"
    )


def _place(where: str, topic: str) -> str:
    return f"Kafka at {where}" + (f", topic {topic}" if topic else "")


def topic_gone(where: str, topic: str) -> InvalidQuery:
    """It was there before."""
    return InvalidQuery(
        f"Kafka at {where} has no topic {topic!r} any more",
        hint="create the topic again: the query goes on from its last checkpoint at the next start",
    )


def nothing_taken(where: str, messages: int, patience_s: float, trouble: str) -> Unavailable:
    """``trouble``: what is known about the reason; may be empty."""
    return Unavailable(
        f"the Kafka brokers at {where} have taken none of {messages} messages for {patience_s:g} s"
        + (f": {trouble}" if trouble else ""),
        hint="are they up and to be reached from the executors? The query goes on from its last checkpoint",
    )


def closed_meanwhile() -> Unavailable:
    return Unavailable("the writer was closed before brokers had all messages")
