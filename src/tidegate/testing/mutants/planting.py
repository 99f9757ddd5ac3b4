"""How a bug gets into running code: a function of the real code is replaced by a wrong one, and put back afterwards."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType, TracebackType
from typing import Any, TypeAlias

Wrong: TypeAlias = Callable[..., Any]
"""Called with the original first, then with the arguments of the call."""


class Planting:
    """Everything one mutant has replaced. Leaving the context puts it back; no file is touched.

    ``reached`` counts the calls of planted code: a judge that finds nothing where nothing was reached was not asked.
    """

    def __init__(self) -> None:
        self.reached = 0
        self._undo: list[tuple[type | ModuleType, str, Any]] = []

    def __enter__(self) -> Planting:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        while self._undo:
            owner, name, original = self._undo.pop()
            setattr(owner, name, original)

    def function(self, original: Callable[..., Any], wrong: Wrong) -> None:
        """Replace a function of a module, also where others have imported it by name."""
        planted = self._counted(original, wrong)
        places = [
            (module, name)
            for module_name, module in sorted(sys.modules.items())
            if module_name.startswith("tidegate.") and module_name != __name__
            for name, value in list(vars(module).items())
            if value is original and not module_name.startswith("tidegate.testing.mutants")
        ]
        if not places:
            raise LookupError(f"nothing in tidegate is called {original!r}")
        for module, name in places:
            self._put(module, name, original, planted)

    def method(self, owner: type, name: str, wrong: Wrong) -> None:
        """Replace a method or a property that ``owner`` itself defines."""
        original = vars(owner)[name]
        if isinstance(original, property):
            getter = original.fget
            assert getter is not None
            self._put(owner, name, original, property(self._counted(getter, wrong)))
        else:
            self._put(owner, name, original, self._counted(original, wrong))

    def _counted(self, original: Callable[..., Any], wrong: Wrong) -> Callable[..., Any]:
        def planted(*args: Any, **named: Any) -> Any:
            self.reached += 1
            return wrong(original, *args, **named)

        return planted

    def _put(self, owner: type | ModuleType, name: str, original: Any, planted: Any) -> None:
        setattr(owner, name, planted)
        self._undo.append((owner, name, original))
