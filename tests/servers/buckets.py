"""As much of Google's and Azure's object stores as a client needs to create, copy, read, list and delete, on 127.0.0.1.

Neither vendor's own server can be had for tests. This one keeps the rules that matter here, of both at once: a create with its vendor's
condition is refused when the object is there, metadata has names that Azure takes, and an unconditional put is an error of the test.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RANGE = re.compile(r"bytes=(\d+)-(\d+)")
_METADATA = ("x-goog-meta-", "x-ms-meta-")
_CREATED = "Mon, 16 Nov 2026 00:00:00 GMT"


class BucketServer(ThreadingHTTPServer):
    """Objects by path; ``bucket`` is the only bucket."""

    daemon_threads = True

    def __init__(self, bucket: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bucket = bucket
        self.objects: dict[str, tuple[bytes, dict[str, str]]] = {}
        self.lock = threading.Lock()
        self.endpoint = f"http://127.0.0.1:{self.server_address[1]}"

    def options_for(self, scheme: str) -> dict[str, str]:
        """How ``gs://`` or ``az://`` is reached here, without ``storage.``."""
        if scheme == "az":
            return {"accountName": "me", "accountKey": b64encode(b"a key").decode(), "endpoint": f"{self.endpoint}/me"}
        account = {"gcs_base_url": self.endpoint, "disable_oauth": True, "client_email": "", "private_key": ""}
        return {"serviceAccountKey": json.dumps({**account, "private_key_id": ""}), "endpoint": self.endpoint}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: BucketServer

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        marks = {name.lower(): value for name, value in self.headers.items() if name.lower().startswith(_METADATA)}
        if copied := self.headers.get("x-goog-copy-source") or self.headers.get("x-ms-copy-source"):
            return self._copy(self._key_of(copied if "://" in copied else f"/{copied}"))
        if not all(_IDENTIFIER.fullmatch(name.split("-meta-")[1]) for name in marks):
            return self._answer(400, "InvalidMetadata")
        if self.headers.get("If-None-Match") != "*" and self.headers.get("x-goog-if-generation-match") != "0":
            return self._answer(500, "UnconditionalPut")
        with self.server.lock:
            if self._key in self.server.objects:
                return self._answer(412 if "x-goog-if-generation-match" in self.headers else 409, "BlobAlreadyExists")
            self.server.objects[self._key] = (data, marks)
        return self._answer(201)

    def _copy(self, source: str) -> None:
        with self.server.lock:
            found = self.server.objects.get(source)
            if found is None:
                return self._answer(404, "BlobNotFound" if "x-ms-version" in self.headers else "NoSuchKey")
            self.server.objects[self._key] = found
        return self._answer(202, headers={"x-ms-copy-status": "success"})

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        if "prefix" in query or "list-type" in query or query.get("comp") == ["list"]:
            return self._list(query.get("prefix", [""])[0])
        found = self.server.objects.get(self._key)
        if found is None:
            return self._answer(404, "BlobNotFound" if "x-ms-version" in self.headers else "NoSuchKey")
        if wanted := _RANGE.fullmatch(self.headers.get("Range") or self.headers.get("x-ms-range") or ""):
            part = found[0][int(wanted[1]) : int(wanted[2]) + 1]
            where = f"bytes {wanted[1]}-{int(wanted[1]) + len(part) - 1}/{len(found[0])}"
            return self._answer(206, body=part, headers={**found[1], "Content-Range": where})
        return self._answer(200, body=found[0], headers=found[1])

    do_HEAD = do_GET

    def do_DELETE(self) -> None:
        gone = self.server.objects.pop(self._key, None)
        self._answer(404 if gone is None else 202, "BlobNotFound")

    def do_POST(self) -> None:
        """Azure's way to delete: requests inside a request."""
        batch = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        parts = []
        for number, path in enumerate(re.findall(r"DELETE (\S+) HTTP", batch)):
            gone = self.server.objects.pop(self._key_of(path), None)
            status = "404 Not Found\r\nx-ms-error-code: BlobNotFound" if gone is None else "202 Accepted"
            head = f"Content-Type: application/http\r\nContent-ID: {number}"
            parts.append(f"--parts\r\n{head}\r\n\r\nHTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n")
        body = "".join([*parts, "--parts--\r\n"]).encode()
        self._answer(202, body=body, headers={"Content-Type": "multipart/mixed; boundary=parts"})

    @property
    def _key(self) -> str:
        return self._key_of(self.path)

    def _key_of(self, path: str) -> str:
        return unquote(urlsplit(path).path).split(f"/{self.server.bucket}/", 1)[-1]

    def _list(self, prefix: str) -> None:
        keys = sorted(key for key in self.server.objects if key.startswith(prefix))
        if "x-ms-version" in self.headers:
            entry = (
                "<Blob><Name>{0}</Name><Properties><Last-Modified>{2}</Last-Modified><Etag>e</Etag>"
                "<Content-Type>application/octet-stream</Content-Type>"
                "<Content-Length>{1}</Content-Length></Properties></Blob>"
            )
            whole = "<EnumerationResults><Blobs>{}</Blobs><NextMarker/></EnumerationResults>"
            date = _CREATED
        else:
            entry = "<Contents><Key>{0}</Key><Size>{1}</Size><LastModified>{2}</LastModified><ETag>e</ETag></Contents>"
            whole = "<ListBucketResult>{}</ListBucketResult>"
            date = "2026-11-16T00:00:00.000Z"
        entries = (entry.format(key, len(self.server.objects[key][0]), date) for key in keys)
        self._answer(200, body=whole.format("".join(entries)).encode())

    def _answer(self, status: int, code: str = "", *, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        if status >= 400:
            body = f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
        self.send_response(status)
        for name, value in {"ETag": '"e"', "Last-Modified": _CREATED, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on the screen."""


@contextlib.contextmanager
def bucket_server(bucket: str = "bucket") -> Iterator[BucketServer]:
    with BucketServer(bucket) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
