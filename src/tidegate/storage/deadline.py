"""A call that may never return, bounded in time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Late(Exception):
    """No answer in time. The call goes on in its thread, and may still take effect."""


def within(timeout_s: float, call: Callable[[], T]) -> T:
    """What ``call`` returns or raises, or ``Late``. For libraries that know no timeout of their own."""
    answer: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            answer.append(call())
        except BaseException as error:  # noqa: BLE001  it is raised again below, for whoever asked
            failure.append(error)

    thread = threading.Thread(target=run, name="tidegate-store-call", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if failure:
        raise failure[0]
    if not answer:
        raise Late
    return answer[0]
