"""What brokers and the client library refuse, or do not do, in the words of the query."""

from __future__ import annotations

from tidegate.connectors.kafka import librdkafka as rd
from tidegate.model.errors import DataError, InvalidQuery, TidegateError, Unavailable

_NOT_ALLOWED = frozenset({29, 30, 31, 53})
"""Authorization failed: topic, group, cluster, transactional id."""
_TRANSACTION_TIMEOUT = 50


def explained(code: int, where: str, topic: str = "", trouble: str = "", text: str = "") -> TidegateError:
    """``code``: the protocol's, or librdkafka's own, below zero. ``text``: what is known beyond it; ``trouble``: what happened before."""
    text = text or rd.text_of(code)
    place = f"Kafka at {where}" + (f", topic {topic}" if topic else "")
    match code:
        case rd.AUTHENTICATION:
            return InvalidQuery(
                f"{place} does not accept the user name and password: {text}",
                hint="see kafka.sasl.username, kafka.sasl.password and kafka.sasl.mechanism",
            )
        case rd.UNKNOWN_TOPIC | rd.UNKNOWN_TOPIC_OR_PARTITION:
            return InvalidQuery(f"{place}: {text}", hint="create the topic, or see option and column 'topic'")
        case rd.UNKNOWN_PARTITION:
            return DataError(f"{place}: a row names a partition that does not exist", hint="see column 'partition'")
        case rd.MESSAGE_TOO_LARGE:
            return DataError(
                f"{place}: a message is larger than allowed: {text}",
                hint="raise kafka.max.request.size here, and max.message.bytes of the topic",
            )
        case code if code in _NOT_ALLOWED:
            return InvalidQuery(f"{place}: {text}", hint="the user needs more rights: see the cluster's ACLs")
        case code if code == _TRANSACTION_TIMEOUT:
            return InvalidQuery(
                f"{place}: {text}",
                hint="kafka.transaction.timeout.ms must not exceed transaction.max.timeout.ms of the brokers",
            )
        case _:
            more = f" ({trouble})" if trouble and trouble != text else ""
            return Unavailable(f"{place}: {text}{more}", hint="the query goes on from its last checkpoint")


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
