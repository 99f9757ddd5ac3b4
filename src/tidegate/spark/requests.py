"""What people asked a running pipeline for and have not been answered yet."""

from __future__ import annotations

import secrets
from concurrent.futures import Future

from tidegate.checkpoint import effects as fx
from tidegate.checkpoint.storing import error_from
from tidegate.model.errors import Unavailable


class Requests:
    """Thread-safe: each request is answered by whoever takes it out."""

    def __init__(self) -> None:
        self._open: dict[str, Future[fx.RequestDone]] = {}

    def open(self) -> tuple[str, Future[fx.RequestDone]]:
        """A token that the coordinator answers by, and what becomes of it."""
        token, answer = secrets.token_hex(8), Future[fx.RequestDone]()
        self._open[token] = answer
        return token, answer

    def answer(self, token: str, outcome: fx.RequestDone | fx.RequestFailed) -> None:
        request = self._open.pop(token, None)
        if request is None:
            return
        match outcome:
            case fx.RequestDone():
                request.set_result(outcome)
            case fx.RequestFailed(failure):
                request.set_exception(error_from(failure))

    def give_up(self) -> None:
        """The query has ended; nobody is left to answer."""
        for token in tuple(self._open):
            request = self._open.pop(token, None)
            if request is not None:
                request.set_exception(Unavailable("the query ended before it was taken", hint="see query.exception()"))
