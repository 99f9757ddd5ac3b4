"""Clients of object stores: S3 and what speaks like it, Google Cloud Storage, Azure."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.model.errors import InvalidQuery
from tidegate.storage.aws_profile import profile_credentials
from tidegate.storage.options import S3_ENDPOINT, StorageOptions
from tidegate.storage.places import BucketPlace

if TYPE_CHECKING:
    from obstore.store import AzureStore, GCSStore, S3Store

    Client = S3Store | GCSStore | AzureStore

BULK_TIMEOUT = timedelta(minutes=30)
"""For one request that carries a large object whole."""


@dataclass(frozen=True, slots=True)
class Clients:
    """Of one store. ``bulk`` waits long for the end of one request; ``deleting`` may name many objects in one, where the vendor can."""

    normal: Client
    bulk: Client
    deleting: Client


def open_clients(place: BucketPlace, options: StorageOptions) -> Clients:
    """Asks nobody. Raises InvalidQuery for a missing package or settings that make no sense."""
    if importlib.util.find_spec("obstore") is None:
        raise InvalidQuery(
            f"{place} needs the Python package 'obstore', which is not installed here",
            hint="pip install 'tidegate[s3]', on the driver and on every executor",
        )
    from obstore.exceptions import BaseError

    timeout = timedelta(seconds=options.number("timeoutSeconds"))
    try:
        return Clients(
            _open(place, options, timeout),
            _open(place, options, BULK_TIMEOUT),
            _open(place, options, timeout, many_in_one=True),
        )
    except (BaseError, ValueError, OSError) as wrong:
        words = options.redact(str(wrong).partition("\n\nDebug source:")[0])
        raise InvalidQuery(f"{place} cannot be opened: {words}", hint="check the options storage.*") from wrong


def _open(place: BucketPlace, options: StorageOptions, timeout: timedelta, *, many_in_one: bool = False) -> Client:
    from obstore.store import AzureStore, GCSStore, S3Store

    common: dict[str, Any] = {
        "prefix": place.prefix or None,
        "client_options": _client_options(options, timeout),
        "retry_config": {
            "max_retries": options.number("retries"),
            "retry_timeout": max(timeout * 2, timedelta(minutes=1)),
        },
    }
    match place.scheme:
        case "s3":
            return S3Store(place.bucket, **common, **_s3(place, options), disable_bulk_delete=not many_in_one)
        case "gs":
            return GCSStore(place.bucket, **common, **_gcs(options))
        case _:
            return AzureStore(place.bucket, **common, **_azure(place, options))


def _client_options(options: StorageOptions, timeout: timedelta) -> dict[str, Any]:
    endpoint = options.get("endpoint") or options.get(S3_ENDPOINT) or ""
    found: dict[str, Any] = {"timeout": timeout, "connect_timeout": min(timeout, timedelta(seconds=10))}
    if endpoint.lower().startswith("http://"):
        found["allow_http"] = True
    if certificate := options.get("caCertificate"):
        found["root_certificate"] = Path(certificate).read_bytes()
    return found


def _s3(place: BucketPlace, options: StorageOptions) -> dict[str, Any]:
    found: dict[str, Any] = {
        # Whatever the environment says: without conditional puts there is no fencing.
        "conditional_put": "etag",
        **_chosen(options, region="region", server_side_encryption="serverSideEncryption", sse_kms_key_id="kmsKeyId"),
        **_chosen(
            options, access_key_id="accessKeyId", secret_access_key="secretAccessKey", session_token="sessionToken"
        ),
    }
    endpoint = options.get("endpoint") or options.get(S3_ENDPOINT)
    if "access_key_id" not in found and (provider := profile_credentials(options.get("profile"))) is not None:
        found["credential_provider"] = provider
        endpoint = endpoint or provider.settings.get("endpoint")
        found = {"region": provider.settings.get("region"), **found} if provider.settings.get("region") else found
    in_host = options.get("pathStyle") == "false" or (options.get("pathStyle") is None and not endpoint)
    if in_host and "." in place.bucket:
        in_host = options.get("pathStyle") == "false"  # Certificates do not cover such names.
    if endpoint:
        # The second name comes first where the environment sets it.
        found["endpoint"] = found["aws_endpoint_url_s3"] = _with_bucket(endpoint, place.bucket) if in_host else endpoint
    return {**found, "virtual_hosted_style_request": in_host}


def _with_bucket(endpoint: str, bucket: str) -> str:
    scheme, mark, host = endpoint.partition("://")
    return f"{scheme}{mark}{bucket}.{host}"


def _gcs(options: StorageOptions) -> dict[str, Any]:
    return _chosen(
        options, service_account="serviceAccountFile", service_account_key="serviceAccountKey", base_url="endpoint"
    )


def _azure(place: BucketPlace, options: StorageOptions) -> dict[str, Any]:
    found = _chosen(
        options, account_name="accountName", account_key="accountKey", sas_key="sasToken", endpoint="endpoint"
    )
    found |= _chosen(options, tenant_id="tenantId", client_id="clientId", client_secret="clientSecret")
    return {**found, "account_name": place.account} if place.account else found


def _chosen(options: StorageOptions, **names: str) -> dict[str, Any]:
    return {theirs: value for theirs, ours in names.items() if (value := options.get(ours)) is not None}
