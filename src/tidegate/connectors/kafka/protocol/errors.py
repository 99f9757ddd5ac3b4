"""What brokers answer when they do not do what was asked."""

from __future__ import annotations

from enum import IntEnum


class Code(IntEnum):
    """Error codes of the protocol that mean something here."""

    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOADING = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    UNKNOWN_MEMBER_ID = 25
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    OFFSET_NOT_AVAILABLE = 78
    INVALID_RECORD = 87
    PRODUCER_FENCED = 90
    UNKNOWN_TOPIC_ID = 100
    INCONSISTENT_TOPIC_ID = 103
    TRANSACTIONAL_ID_NOT_FOUND = 105
    TRANSACTION_ABORTABLE = 120


RETRIABLE = frozenset(
    {
        Code.NOT_LEADER,
        Code.REQUEST_TIMED_OUT,
        Code.COORDINATOR_LOADING,
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.NOT_COORDINATOR,
        Code.CONCURRENT_TRANSACTIONS,
    }
)
"""Asking again, after looking for the coordinator again, may help."""

NOT_TAKEN = RETRIABLE | {
    Code.UNKNOWN_TOPIC_OR_PARTITION,
    Code.LEADER_NOT_AVAILABLE,
    Code.BROKER_NOT_AVAILABLE,
    Code.REPLICA_NOT_AVAILABLE,
    Code.NETWORK_EXCEPTION,
    Code.NOT_ENOUGH_REPLICAS,
    Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    Code.KAFKA_STORAGE_ERROR,
    Code.FENCED_LEADER_EPOCH,
    Code.UNKNOWN_LEADER_EPOCH,
}
"""Answers to messages that may be sent again, after looking for the partition's leader again."""

ENDED_OTHERWISE = frozenset(
    {
        Code.INVALID_PRODUCER_EPOCH,
        Code.INVALID_TXN_STATE,
        Code.INVALID_PRODUCER_ID_MAPPING,
        Code.UNKNOWN_PRODUCER_ID,
        Code.PRODUCER_FENCED,
        Code.TRANSACTIONAL_ID_NOT_FOUND,
        Code.TRANSACTION_ABORTABLE,
    }
)
"""Answers to an EndTxn whose transaction is not there any more, under the handle that was given."""

UNAUTHORIZED = frozenset({Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Code.CLUSTER_AUTHORIZATION_FAILED})

NOT_ALLOWED = UNAUTHORIZED | {Code.TOPIC_AUTHORIZATION_FAILED, Code.GROUP_AUTHORIZATION_FAILED}
"""A right is missing, to whatever it may be."""


class Refused(Exception):
    """A broker answered with an error code."""

    def __init__(self, code: int, about: str) -> None:
        super().__init__(f"{name_of(code)} for {about}")
        self.code = code


def name_of(code: int) -> str:
    try:
        return Code(code).name
    except ValueError:
        return f"error code {code}"
