"""As many error classes as there are reactions. Each has a stable code, a message and a way out."""

from __future__ import annotations


class TidegateError(Exception):
    """Base of everything Tidegate raises on purpose."""

    code = "TIDEGATE"
    operator = ""
    """Operator it came from, as explain() prints it; set by the loop of a slot."""
    position = ""
    """Where in the input the failing row stands; set by the loop of a slot."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"[{self.code}] {self.message}" + (f"\n  → {self.hint}" if self.hint else "")

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, self.hint)


def _rebuild(kind: type[TidegateError], message: str, hint: str) -> TidegateError:
    return kind(message, hint=hint)


class InvalidQuery(TidegateError):
    """The query, an option or the cluster's set-up asks for something we refuse: change it."""

    code = "INVALID_QUERY"


class UserCodeFailed(TidegateError):
    """A function of the user raised: mend it. The message opens with the user's own traceback."""

    code = "USER_CODE_FAILED"


class DataError(TidegateError):
    """A row broke a rule of Spark SQL (overflow, division by zero, bad cast): mend the data or the query."""

    code = "DATA_ERROR"


class Unavailable(TidegateError):
    """Something outside did not answer: trying again may help."""

    code = "UNAVAILABLE"


class Outdated(Unavailable):
    """What this attempt was told at its beginning holds no longer: waiting does not help, a new attempt does."""


class Fenced(TidegateError):
    """A newer attempt owns the pipeline: stop, touch nothing."""

    code = "FENCED"


class CorruptSnapshot(TidegateError):
    """Stored state is damaged or missing: restore an older one, knowingly."""

    code = "CORRUPT_SNAPSHOT"


class SlotLost(TidegateError):
    """A slot died, fell silent or broke the channel protocol: the attempt restarts."""

    code = "SLOT_LOST"


class Bug(TidegateError):
    """Tidegate broke its own rules: report it."""

    code = "BUG"
