"""A call that may never return, bounded in time."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


class Late(Exception):
    """No answer in time. The call goes on in its thread, and may still take effect."""


def within(timeout_s: float, call: Callable[[], T]) -> T:
    """What ``call`` returns or raises, or ``Late``. For libraries that know no timeout of their own."""
    answer: list[T] = []

    def once() -> Iterable[None]:
        answer.append(call())
        yield

    each_within(timeout_s, once())
    return answer[0]


def each_within(timeout_s: float, steps: Iterable[object]) -> None:
    """Goes through ``steps``; raises what one of them raises, or ``Late`` when one takes longer. Then none after it is begun."""
    # Nobody waits for the other thread between two steps: on a busy machine each hand-over would cost more than a step.
    news: queue.SimpleQueue[BaseException | bool] = queue.SimpleQueue()
    given_up = threading.Event()

    def run() -> None:
        try:
            for _ in steps:
                news.put(False)
                if given_up.is_set():
                    return
            news.put(True)
        except BaseException as error:  # noqa: BLE001  it is raised again below, for whoever asked
            news.put(error)

    threading.Thread(target=run, name="tidegate-store-call", daemon=True).start()
    while True:
        try:
            said = news.get(timeout=timeout_s)
        except queue.Empty:
            given_up.set()
            raise Late from None
        if isinstance(said, BaseException):
            raise said
        if said:
            return
