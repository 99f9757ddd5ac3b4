from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from tidegate.api.settings import sort_options
from tidegate.model.errors import InvalidQuery
from tidegate.storage.aws_profile import profile_credentials
from tidegate.storage.object_errors import answer_of, explain
from tidegate.storage.options import (
    S3_ENDPOINT,
    STORAGE_OPTIONS,
    StorageOptions,
    describe_storage_options,
    from_environment,
    storage_options,
)

SECRET = "wJalrXUtnFEMI/K7MDENG"


def test_options_of_storage_are_ours_and_never_the_sinks() -> None:
    found = sort_options(
        {"tidegate.storage.ENDPOINT": "http://minio:9000/", "storage.hadoop.dfs.nameservices": "Prod", "path": "x"}
    )
    assert found.storage.values == {"endpoint": "http://minio:9000", "hadoop.dfs.nameservices": "Prod"}
    assert found.sink == {"path": "x"}
    assert found.storage.hadoop() == {"dfs.nameservices": "Prod"}


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("endpoit", "http://x", "storage.endpoint"),
        ("nonsense", "x", "storage.region"),
        ("endpoint", "minio:9000", "http://"),
        ("pathStyle", "maybe", "true or false"),
        ("uploads", "0", "between 1 and 64"),
        ("retries", "-1", "between 0 and 100"),
        ("region", "", ""),
        ("accessKeyId", "AKIA", "storage.secretAccessKey"),
        ("kerberosKeytab", "/k", "storage.kerberosPrincipal"),
    ],
)
def test_what_is_wrong_is_refused_by_name(name: str, value: str, words: str) -> None:
    with pytest.raises(InvalidQuery) as raised:
        storage_options({name: value})
    assert f"storage.{name}" in raised.value.message
    assert words in str(raised.value)


def test_secrets_are_in_nothing_that_is_printed_and_travel_all_the_same() -> None:
    options = storage_options({"accessKeyId": "AKIA", "secretAccessKey": SECRET, "sessionToken": "abcdef"})
    for text in (repr(options), str(options), f"{options}", repr([options])):
        assert SECRET not in text and "abcdef" not in text
        assert "accessKeyId=AKIA" in text and "secretAccessKey=***" in text
    assert pickle.loads(pickle.dumps(options)) == options
    assert options.redact(f"url?sig={SECRET}&x") == "url?sig=***&x"
    assert SECRET not in repr(sort_options({"storage.accessKeyId": "A", "storage.secretAccessKey": SECRET}))


def test_an_option_comes_before_the_environment_and_brings_its_own_companions() -> None:
    outside = from_environment(
        {
            "AWS_ACCESS_KEY_ID": "outside",
            "AWS_SECRET_ACCESS_KEY": "outside's",
            "AWS_SESSION_TOKEN": "a token of another key",
            "AWS_DEFAULT_REGION": "eu-west-1",
            "AWS_ENDPOINT_URL": "http://minio:9000",
        }
    )
    assert outside.values[S3_ENDPOINT] == "http://minio:9000", "what AWS's variables say is for S3 alone"
    both = storage_options({"accessKeyId": "own", "secretAccessKey": "own's"}).over(outside)
    assert both.get("accessKeyId") == "own" and both.get("sessionToken") is None
    assert both.get("region") == "eu-west-1"
    assert StorageOptions().over(outside) == outside


def test_the_documentation_names_every_option() -> None:
    page = (Path(__file__).parents[3] / "docs" / "connectors" / "storage.md").read_text()
    assert describe_storage_options() in page, "run tools/reference.py"
    assert all(f"`storage.{option.name}`" in page for option in STORAGE_OPTIONS)


def test_keys_come_from_the_files_that_amazons_tools_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys, config = tmp_path / "credentials", tmp_path / "config"
    keys.write_text(f"[work]\naws_access_key_id = AKIA\naws_secret_access_key = {SECRET}\n")
    config.write_text("[profile work]\nregion = eu-central-1\n[profile role]\nrole_arn = arn:aws:iam::1:role/x\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(keys))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    found = profile_credentials("work")
    assert found is not None and found.settings == {"region": "eu-central-1"}
    assert found()["secret_access_key"] == SECRET
    keys.write_text("[work]\naws_access_key_id = AKIA2\naws_secret_access_key = renewed\n")
    assert found()["access_key_id"] == "AKIA2", "a renewed key is picked up"
    assert profile_credentials(None) is None
    with pytest.raises(InvalidQuery, match="no aws_access_key_id") as raised:
        profile_credentials("role")
    assert "export-credentials" in raised.value.hint


def test_a_signature_in_the_url_of_a_failed_request_is_not_repeated() -> None:
    error = OSError("Error performing GET https://a.blob.core.windows.net/c/k?sv=1&sig=topsecret in 3ms - HTTP error")
    assert "topsecret" not in answer_of(error).words
    assert "topsecret" not in str(explain(error, "read", "az://c/k"))


def test_a_machine_without_any_credentials_is_told_so() -> None:
    error = OSError("Error performing PUT http://169.254.169.254/latest/api/token in 1s - HTTP error")
    told = explain(error, "write", "s3://b/k")
    assert "no credentials" in told.message and "AWS_ACCESS_KEY_ID" in told.hint
