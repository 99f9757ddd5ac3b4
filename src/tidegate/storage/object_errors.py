"""What an object store said, in its own words, and what can be done about it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidegate.model.errors import TidegateError, Unavailable
from tidegate.storage.errors import Refused

_DEBUG = "\n\nDebug source:"
_STATUS = re.compile(r"status code: (\d{3}) ?([A-Za-z ]*)")
_CODE = re.compile(r"<Code>([^<]+)</Code>|\"code\": ?\"?([A-Za-z0-9]+)")
_MESSAGE = re.compile(r"<Message>([^<]+)</Message>|\"message\": ?\"([^\"]+)\"")
_QUERY = re.compile(r"(https?://[^\s?]+)\?\S+")
_WORDS_MAX = 300

_NO_PLACE = ("NoSuchBucket", "ContainerNotFound", "InvalidBucketName")
_NO_KEY = (
    *("InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "TokenRefreshRequired"),
    *("AuthenticationFailed", "AuthorizationHeaderMalformed", "InvalidSecurity", "RequestExpired"),
)
_FULL = ("XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "QuotaExceeded")
_METADATA = "169.254.169.254"
"""Where credentials are looked for last: only a machine of the cloud itself has something there."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An error of the client library, taken apart."""

    status: int
    """Of HTTP; 0: there was no answer at all."""
    code: str
    words: str

    @property
    def place_missing(self) -> bool:
        """The bucket is not there: says nothing about any object."""
        return self.code in _NO_PLACE and self.status in (400, 404)


def answer_of(error: BaseException) -> Answer:
    text, _, debug = str(error).partition(_DEBUG)
    status = _STATUS.search(text)
    code = _first(_CODE, text)
    message = _first(_MESSAGE, text)
    if status is not None:
        words = f"{status[1]} {code or status[2].strip()}" + (f": {message}" if message else "")
    else:
        # Not the parameters of a request: they may carry a signature.
        words = _QUERY.sub(r"\1", text).strip() + _reason(debug)
    return Answer(int(status[1]) if status is not None else 0, code, words[:_WORDS_MAX])


def explain(error: BaseException, doing: str, where: str) -> TidegateError:
    """Unavailable, or Refused when the store itself said no. ``doing``: ``write``; ``where``: place and key."""
    answer = answer_of(error)
    what = f"cannot {doing} {where}: {answer.words}"
    if answer.place_missing:
        return Refused(what, hint="make the bucket, or name another one in the location")
    if _METADATA in str(error):
        return Refused(
            f"cannot {doing} {where}: no credentials were found",
            hint="set them in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) or as options storage.accessKeyId and "
            "storage.secretAccessKey",
        )
    if answer.code in _NO_KEY or answer.status == 401:
        return Refused(what, hint="the store does not take the credentials: correct or renew them; it is tried again")
    if answer.status == 507 or answer.code in _FULL:
        return Unavailable(what, hint="the store or its quota is full: free some space, the query goes on by itself")
    if answer.status == 403:
        return Refused(
            what, hint="give these credentials permission to read, write, list and delete there; it is tried again"
        )
    if answer.status in (301, 307, 400) and answer.code != "RequestTimeout":
        return Refused(what, hint="check storage.endpoint, storage.region and storage.pathStyle")
    if answer.status in (429, 503) or answer.code == "SlowDown":
        return Unavailable(what, hint="the store asks for fewer requests; it is tried again, with pauses")
    if answer.status in (405, 501):
        return Refused(what, hint="the store does not know this kind of request: use one with conditional writes")
    if answer.status:
        return Unavailable(what, hint="the store answered with an error; it is tried again")
    return Unavailable(
        what, hint="the store did not answer; it is tried again. Is storage.endpoint right, and the network up?"
    )


def _first(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return next((group for group in match.groups() if group), "") if match else ""


def _reason(debug: str) -> str:
    """What the transport says beneath its own summary."""
    if "Connection refused" in debug:
        return " (connection refused)"
    if re.search(r"kind: Timeout|TimedOut|operation timed out", debug):
        return " (no answer in time)"
    if "dns error" in debug:
        return " (no such host)"
    if "connection closed" in debug or "IncompleteMessage" in debug or "Connection reset" in debug:
        return " (the connection was cut)"
    return ""
