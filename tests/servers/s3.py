"""An S3 server on 127.0.0.1 (moto): buckets, conditional puts, multipart uploads, and access keys that can be revoked.

::

    with s3_server(tmp_path) as s3:
        store = open_store(f"s3://{s3.bucket()}/q1", s3.options)
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from tests.servers.processes import accepts, die_with_parent, free_ports

UP_SECONDS_MAX = 60.0
REGION = "eu-west-1"
_ADMIN = {"aws_access_key_id": "admin", "aws_secret_access_key": "admin's secret", "region_name": REGION}
_UNCHECKED_CALLS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class AccessKey:
    """Of a user who may do anything, until it is revoked."""

    user: str
    id: str
    secret: str


class S3Server:
    """A running server. Requests are not checked for who sends them, unless ``check_keys`` is called."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.log = directory / "s3.log"
        self._names = itertools.count(1)
        (self.port,) = free_ports(1)
        self.endpoint = f"http://127.0.0.1:{self.port}"
        server = Path(sys.executable).with_name("moto_server")
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(server), "-H", "127.0.0.1", "-p", str(self.port)],
                env={
                    **os.environ,
                    "INITIAL_NO_AUTH_ACTION_COUNT": str(_UNCHECKED_CALLS),
                    "MOTO_S3_DEFAULT_MAX_KEYS": "10",
                },
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,
            )
        until = time.monotonic() + UP_SECONDS_MAX
        while not accepts(self.port):
            if self._process.poll() is not None or time.monotonic() > until:
                self.close()
                raise RuntimeError(f"the S3 server is not up; its log ends with\n{self.log.read_text()[-3000:]}")
            time.sleep(0.05)

    @property
    def options(self) -> dict[str, str]:
        """How a query reaches it."""
        return self.options_for(AccessKey("", "anybody", "a secret"))

    def options_for(self, key: AccessKey) -> dict[str, str]:
        return {
            "storage.endpoint": self.endpoint,
            "storage.region": REGION,
            "storage.accessKeyId": key.id,
            "storage.secretAccessKey": key.secret,
        }

    def client(self, service: str = "s3") -> Any:
        """A client of the vendor's own library."""
        return boto3.client(service, endpoint_url=self.endpoint, **_ADMIN)

    def bucket(self, name: str = "") -> str:
        """Makes a bucket and returns its name: a fresh one unless given."""
        name = name or f"bucket-{next(self._names)}"
        self.client().create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
        return name

    def keys(self, bucket: str) -> list[str]:
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=bucket)
        return [one["Key"] for page in pages for one in page.get("Contents", ())]

    def access_key(self) -> AccessKey:
        user = f"user-{next(self._names)}"
        iam = self.client("iam")
        iam.create_user(UserName=user)
        everything = {"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}
        iam.put_user_policy(UserName=user, PolicyName="all", PolicyDocument=json.dumps(everything))
        key = iam.create_access_key(UserName=user)["AccessKey"]
        return AccessKey(user, key["AccessKeyId"], key["SecretAccessKey"])

    @contextlib.contextmanager
    def check_keys(self) -> Iterator[None]:
        """From here on only requests signed with a living access key are served."""
        self._unchecked(0)
        try:
            yield
        finally:
            self.restore()

    def revoke(self, key: AccessKey) -> None:
        self._unchecked(_UNCHECKED_CALLS)
        self.client("iam").delete_access_key(UserName=key.user, AccessKeyId=key.id)
        self._unchecked(0)

    def restore(self) -> None:
        """Every key works again, as before ``check_keys``."""
        self._unchecked(_UNCHECKED_CALLS)

    def _unchecked(self, calls: int) -> None:
        request = urllib.request.Request(
            f"{self.endpoint}/moto-api/reset-auth",
            data=str(calls).encode(),
            headers={"Content-Type": "text/plain"},
            method="POST",
        )
        urllib.request.urlopen(request).close()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def s3_server(directory: Path) -> Iterator[S3Server]:
    """A running server without a bucket. It is gone afterwards, with all that was in it."""
    server = S3Server(directory)
    try:
        yield server
    finally:
        server.close()
