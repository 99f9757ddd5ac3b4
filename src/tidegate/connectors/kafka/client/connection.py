"""One connection to one broker: opened, encrypted and logged in, then requests one after the other or many at once."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from typing import TypeVar

from tidegate.connectors.kafka.client.security import Security
from tidegate.connectors.kafka.protocol.codec import MalformedAnswer
from tidegate.connectors.kafka.protocol.errors import Code
from tidegate.connectors.kafka.protocol.login import NotTrusted, sasl_authenticate, sasl_handshake
from tidegate.connectors.kafka.protocol.requests import Address, Request
from tidegate.model.errors import InvalidQuery, Unavailable

Answer = TypeVar("Answer")

ANSWER_BYTES_MAX = 64 * 1024 * 1024


class NotAdmitted(InvalidQuery):
    """The broker does not accept who we say we are."""

    def __init__(self, address: Address, mechanism: str, why: str) -> None:
        proof = "token" if mechanism == "OAUTHBEARER" else "user name and password"
        super().__init__(
            f"Kafka broker {address} does not accept the {proof}: {why}",
            hint="see kafka.sasl.mechanism and "
            + ("kafka.sasl.oauthbearer.*" if proof == "token" else "kafka.sasl.username and kafka.sasl.password"),
        )
        self.why = why


class Connection:
    """Raises OSError (also for a timeout) when the broker is not to be had: then it is closed and of no more use."""

    def __init__(self, address: Address, security: Security, timeout_s: float) -> None:
        self.address = address
        self._client_id = security.client_id
        self._sent = 0
        self._socket = socket.create_connection((address.host, address.port), timeout_s)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if security.encrypted:
                self._socket = self._encrypted(security)
            if security.mechanism:
                self._log_in(security)
        except BaseException:
            self.close()
            raise

    def ask(self, request: Request[Answer]) -> Answer:
        return self.ask_all((request,))[0]

    def ask_all(self, requests: Sequence[Request[Answer]]) -> list[Answer]:
        """All are on their way before the first answer is read; answers come in the order of the requests."""
        first = self._sent
        self._sent += len(requests)
        self._socket.sendall(b"".join(one.encode(first + n, self._client_id) for n, one in enumerate(requests)))
        answers: list[Answer] = []
        for number, request in enumerate(requests, first):
            correlation, answer = request.decode(self._receive(request.name))
            if correlation != number:
                raise MalformedAnswer(f"answer {correlation} to request {number}")
            answers.append(answer)
        return answers

    @property
    def socket(self) -> socket.socket:
        """For an owner that sends and receives in its own way from now on."""
        return self._socket

    def close(self) -> None:
        self._socket.close()

    def _receive(self, what: str) -> bytes:
        length = int.from_bytes(self._exactly(4, what), "big")
        if length > ANSWER_BYTES_MAX:
            raise MalformedAnswer(f"an answer of {length} bytes")
        return self._exactly(length, what)

    def _exactly(self, count: int, what: str) -> bytes:
        received = bytearray()
        while len(received) < count:
            part = self._socket.recv(count - len(received))
            if not part:
                raise ConnectionError(f"{self.address} closed the connection instead of answering {what}")
            received += part
        return bytes(received)

    def _encrypted(self, security: Security) -> ssl.SSLSocket:
        try:
            context = security.context()
        except (OSError, ValueError) as error:
            raise InvalidQuery(
                f"the certificates of the Kafka options cannot be used: {error}",
                hint="kafka.ssl.ca.location, kafka.ssl.certificate.location and kafka.ssl.key.location name PEM files",
            ) from error
        try:
            return context.wrap_socket(self._socket, server_hostname=self.address.host)
        except ssl.SSLCertVerificationError as error:
            raise InvalidQuery(
                f"Kafka broker {self.address} shows a certificate that is not trusted: {error.verify_message}",
                hint="kafka.ssl.ca.location must name the certificate authority of the brokers",
            ) from error

    def _log_in(self, security: Security) -> None:
        hello = self.ask(sasl_handshake(security.mechanism))
        if hello.error:
            raise InvalidQuery(
                f"Kafka broker {self.address} does not let clients log in by {security.mechanism}",
                hint=f"it offers {', '.join(hello.mechanisms) or 'nothing'}: see kafka.sasl.mechanism",
            )
        try:
            conversation = security.login()
        except Unavailable as error:  # The server that issues tokens is asked again with the broker.
            raise ConnectionError(error.message) from error
        try:
            message = next(conversation)
            while True:
                answer = self.ask(sasl_authenticate(message))
                if answer.error:
                    refused = answer.error == Code.SASL_AUTHENTICATION_FAILED
                    why = answer.message if refused else f"error code {answer.error}"
                    raise NotAdmitted(self.address, security.mechanism, why)
                message = conversation.send(answer.data)
        except StopIteration:
            return
        except NotTrusted as error:
            raise NotAdmitted(self.address, security.mechanism, str(error)) from error
