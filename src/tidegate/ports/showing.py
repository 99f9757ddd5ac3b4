"""What may be shown of options."""

from __future__ import annotations

import re

HIDDEN = "*****"
_PASSWORDS = re.compile(r"""(?<=:)(?<!://)[^:@/\s]+(?=@)|(?<=password=)('(?:[^'\\]|\\.)*'|[^\s&]+)""", re.IGNORECASE)
"""Inside a value: ``scheme://user:…@host``, ``host=… password=…``, ``…?password=…``."""


def without_passwords(value: str) -> str:
    return _PASSWORDS.sub(HIDDEN, value)
