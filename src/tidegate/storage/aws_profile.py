"""Credentials from the files that Amazon's tools share: ``~/.aws/credentials`` and ``~/.aws/config``."""

from __future__ import annotations

import configparser
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.model.errors import InvalidQuery, Unavailable

if TYPE_CHECKING:
    from obstore.store import S3Credential

READ_AGAIN_AFTER = timedelta(minutes=5)
"""A key that was renewed in the file is in use after this long."""


class ProfileCredentials:
    """Called by the client whenever it needs credentials that have not expired."""

    def __init__(self, profile: str) -> None:
        self._profile = profile

    @property
    def settings(self) -> dict[str, str]:
        """Region and endpoint of the profile, under the client's names."""
        section = _section(self._profile)
        names = {"region": "region", "endpoint": "endpoint_url"}
        return {ours: section[theirs] for ours, theirs in names.items() if theirs in section}

    def __call__(self) -> S3Credential:
        section = _section(self._profile)
        if "aws_access_key_id" not in section or "aws_secret_access_key" not in section:
            raise Unavailable(f"profile {self._profile!r} of the AWS credentials file has lost its key")
        return {
            "access_key_id": section["aws_access_key_id"],
            "secret_access_key": section["aws_secret_access_key"],
            "token": section.get("aws_session_token"),
            "expires_at": datetime.now(UTC) + READ_AGAIN_AFTER,
        }


def profile_credentials(profile: str | None) -> ProfileCredentials | None:
    """None: no profile was asked for and there is no default one. Raises InvalidQuery for one without a key of its own."""
    section = _section(profile or "default")
    if "aws_access_key_id" in section:
        return ProfileCredentials(profile or "default")
    if profile is None:
        return None
    raise InvalidQuery(
        f"profile {profile!r} has no aws_access_key_id in the AWS credentials file",
        hint="profiles that assume a role or sign on are not followed: export their keys (aws configure export-credentials "
        "--format env), or run where the role is given by the machine",
    )


def _section(profile: str) -> dict[str, str]:
    files = (
        (os.environ.get("AWS_CONFIG_FILE", "~/.aws/config"), profile if profile == "default" else f"profile {profile}"),
        (os.environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"), profile),
    )
    found: dict[str, str] = {}
    for name, section in files:
        parser = configparser.RawConfigParser()
        try:
            parser.read(Path(name).expanduser())
        except (configparser.Error, OSError, UnicodeDecodeError) as broken:
            raise InvalidQuery(f"{name} cannot be read: {str(broken).splitlines()[0]}") from broken
        if parser.has_section(section):
            found |= dict(parser.items(section))
    return found
