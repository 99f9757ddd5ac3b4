"""Errors of the operating system as what a person can do about them."""

from __future__ import annotations

import errno

from tidegate.model.errors import InvalidQuery, TidegateError, Unavailable


def explain(error: OSError, doing: str, path: object) -> TidegateError:
    """InvalidQuery when the place itself is wrong, Unavailable when the same call may succeed later."""
    where = f"cannot {doing} {path}: {error.strerror or error}"
    match error.errno:
        case errno.EROFS:
            return InvalidQuery(where, hint="the file system is mounted read-only: choose another location")
        case errno.EACCES | errno.EPERM:
            return InvalidQuery(
                where, hint="give the user that runs Spark permission there, or choose another location"
            )
        case errno.ENOTDIR | errno.EISDIR:
            return InvalidQuery(where, hint="a file stands where a directory is needed, or the reverse")
        case errno.ENOSPC | errno.EDQUOT:
            return Unavailable(
                where, hint="the disk or the quota is full: free some space, the query goes on by itself"
            )
        case errno.EFBIG:
            return Unavailable(
                where, hint="the process may not write files that large (ulimit -f): raise the limit and start again"
            )
        case errno.ENOENT:
            return Unavailable(where, hint="the location vanished (unmounted, or deleted by somebody): bring it back")
        case _:
            return Unavailable(where, hint="the file system answered with an error; it is tried again")
