from __future__ import annotations

import multiprocessing
import pickle
from pathlib import Path

import pytest

from pyhudi.errors import ConfigError, HudiError, UnsafePathError, UnsupportedFeatureError
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.open import open_spec, open_storage
from pyhudi.storage.options import client_settings, select_storage_options
from pyhudi.storage.paths import local_path
from pyhudi.storage.protocol import StorageSpec

KEYS = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "aws_region": "us-east-1"}


@pytest.mark.parametrize("prefix", ["", "file:", "file://", "file://localhost"])
def test_local_path_and_file_uris_are_the_same_store(tmp_path: Path, prefix: str) -> None:
    folder = tmp_path / "a b#c?d%20e=ü"
    storage = open_storage(f"{prefix}{folder}/")
    storage.put("x", b"1")

    assert isinstance(storage, LocalStorage)
    assert storage is open_storage(str(folder))
    assert storage.uri == f"file:{folder}"
    assert local_path(storage.uri) == folder
    assert (folder / "x").read_bytes() == b"1"


def test_relative_path_is_taken_from_the_working_folder_of_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    storage = open_storage("some/../table")
    monkeypatch.chdir("/")

    assert storage.uri == f"file:{tmp_path}/table"
    assert open_storage("table").uri == "file:/table"


def test_memory_uri_names_one_store_of_the_process() -> None:
    storage = open_storage("memory://test-opening/folder")
    storage.put("sub/x", b"1")

    assert open_storage("memory://test-opening/folder/sub").read("x") == b"1"
    assert MemoryStorage.named("test-opening").read("folder/sub/x") == b"1"
    assert open_storage("memory://test-opening-2").list_recursive("") == ()
    assert MemoryStorage().list_recursive("") == ()


def test_memory_uri_of_an_unnamed_store_reaches_it_while_it_lives() -> None:
    storage = MemoryStorage()
    storage.put("x", b"1")

    assert open_storage(storage.uri).read("x") == b"1"


def test_object_store_is_shared_by_calls_with_equal_options_only() -> None:
    one = open_storage("s3://bucket/t", KEYS)

    assert open_storage("s3://bucket/t/", dict(reversed(KEYS.items()))) is one
    assert open_storage("s3://bucket/t", {**KEYS, "hoodie.table.name": "t"}) is one
    assert one.spec.options == KEYS
    assert open_storage("s3://bucket/t", {**KEYS, "aws_region": "eu-west-1"}) is not one
    assert open_storage("s3://bucket/u", KEYS) is not one
    assert open_spec(pickle.loads(pickle.dumps(one.spec))) is one


@pytest.mark.parametrize(
    ("uri", "error"),
    [
        ("viewfs://cluster/t", UnsupportedFeatureError),
        ("s3://", ConfigError),
        ("s3:///t", ConfigError),
        ("file://otherhost/t", ConfigError),
        ("", ConfigError),
        ("s3://bucket/a/../b", UnsafePathError),
        ("s3://bucket//b", UnsafePathError),
        ("memory://name/../b", UnsafePathError),
    ],
)
def test_uri_that_leads_nowhere_is_refused(uri: str, error: type[HudiError]) -> None:
    with pytest.raises(error):
        open_storage(uri)


def _open_elsewhere(spec: StorageSpec) -> str:
    try:
        open_spec(spec)
    except UnsupportedFeatureError as error:
        return str(error)
    return "opened"


def test_memory_store_is_refused_in_another_process() -> None:
    storage = MemoryStorage()

    assert open_spec(storage.spec) is storage
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert "memory of one process" in pool.apply(_open_elsewhere, (storage.spec,))


def test_spec_of_a_store_that_is_gone_is_refused() -> None:
    spec = MemoryStorage().spec

    with pytest.raises(UnsupportedFeatureError):
        open_spec(spec)


def test_hadoop_options_become_client_settings() -> None:
    settings = client_settings(
        {
            "fs.s3a.endpoint": "http://127.0.0.1:9000/",
            "fs.s3a.access.key": "a",
            "fs.s3a.secret.key": "b",
            "fs.s3a.session.token": "c",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.endpoint.region": "r",
            "fs.s3a.attempts.maximum": "3",
            "fs.s3a.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        },
        authority="bucket",
    )

    assert settings.store == {
        "aws_endpoint": "http://127.0.0.1:9000",
        "aws_access_key_id": "a",
        "aws_secret_access_key": "b",
        "aws_session_token": "c",
        "aws_region": "r",
    }
    assert settings.client["allow_http"] is True
    assert settings.retries == 2
    assert "'b'" not in repr(settings)


@pytest.mark.parametrize(
    ("options", "endpoint", "allow_http"),
    [
        ({"fs.s3a.endpoint": "s3.example.org"}, "https://s3.example.org", None),
        (
            {"fs.s3a.endpoint": "s3.example.org", "fs.s3a.connection.ssl.enabled": "false"},
            "http://s3.example.org",
            True,
        ),
        (
            {"fs.s3a.endpoint": "https://s3.example.org", "fs.s3a.path.style.access": "FALSE"},
            "https://bucket.s3.example.org",
            None,
        ),
        ({"fs.s3a.path.style.access": "false"}, None, None),
        ({"AWS_ENDPOINT": "http://h"}, "http://h", True),
        ({"aws_endpoint": "https://h", "allow_http": "true"}, "https://h", True),
    ],
)
def test_endpoint_is_addressed_as_the_options_say(
    options: dict[str, str], endpoint: str | None, allow_http: bool | None
) -> None:
    settings = client_settings(options, authority="bucket")

    assert settings.store.get("aws_endpoint") == endpoint
    assert settings.client.get("allow_http") is allow_http
    by_host = options.get("fs.s3a.path.style.access", "true").lower() == "false"
    assert settings.store.get("aws_virtual_hosted_style_request") == ("true" if by_host else None)


@pytest.mark.parametrize(
    ("scheme", "variable", "options", "allow_http"),
    [
        ("s3", "AWS_ENDPOINT_URL", {}, True),
        ("s3", "AWS_ENDPOINT_URL", {"aws_endpoint": "https://h"}, None),
        ("s3", "AZURE_STORAGE_ENDPOINT", {}, None),
        ("az", "AZURE_STORAGE_ENDPOINT", {}, True),
        ("gs", "AWS_ENDPOINT_URL", {}, None),
    ],
)
def test_endpoint_of_the_environment_counts_where_no_option_gives_one(
    monkeypatch: pytest.MonkeyPatch, scheme: str, variable: str, options: dict[str, str], allow_http: bool | None
) -> None:
    monkeypatch.setenv(variable, "http://h")

    assert client_settings(options, authority="bucket", scheme=scheme).client.get("allow_http") is allow_http


def test_option_that_the_store_does_not_have_brings_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match="no option aws_endpont: did you mean aws_endpoint"):
        open_storage("s3://bucket/t", {"AWS_ENDPONT": "http://h"})


@pytest.mark.parametrize(
    "options",
    [
        {"fs.s3a.attempts.maximum": "0"},
        {"fs.s3a.attempts.maximum": "many"},
        {"allow_http": "perhaps"},
    ],
)
def test_option_value_without_a_meaning_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        client_settings(options, authority="bucket")


def test_storage_options_are_picked_from_the_options_of_a_write() -> None:
    mixed = {"hoodie.table.name": "t", "path": "p", "fs.s3a.access.key": "a", "AWS_REGION": "r", "allow_http": "true"}

    assert select_storage_options(mixed) == {"fs.s3a.access.key": "a", "AWS_REGION": "r", "allow_http": "true"}


@pytest.mark.parametrize("attempts", ["0", "-1", "", "x", "1.5", "3²", "9" * 5000])
def test_malformed_number_of_attempts_is_refused(attempts: str) -> None:
    with pytest.raises(ConfigError, match=r"fs\.s3a\.attempts\.maximum"):
        client_settings({"fs.s3a.attempts.maximum": attempts}, authority="bucket")
