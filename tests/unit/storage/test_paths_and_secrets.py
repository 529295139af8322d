from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pyhudi.errors import UnsafePathError
from pyhudi.storage.paths import check_relative, check_relative_folder, is_side_file, temporary_name
from pyhudi.storage.secrets import MASK, is_secret, redact, secret_values


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="ab./\\ \x00\n%", max_size=12))
@example("a/../../b")
def test_accepted_path_never_leaves_its_root(path: str) -> None:
    try:
        check_relative(path)
    except UnsafePathError:
        return
    assert not {"", ".", ".."} & set(path.replace("\\", "/").split("/"))
    assert "\x00" not in path


def test_root_is_a_folder_but_no_file() -> None:
    assert check_relative_folder("") == ""
    with pytest.raises(UnsafePathError):
        check_relative("")


@pytest.mark.parametrize("path", ["a/...", "..a/b..", "a b", "a=%2F", ".hoodie", "ünï/日本"])
def test_unusual_but_safe_path_is_accepted(path: str) -> None:
    assert check_relative(path) == path


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param(temporary_name(), True, id="temporary"),
        (".hoodie.properties.crc", True),
        (".pyhudi-lock", True),
        ("file.crc", False),
        (".hoodie_partition_metadata", False),
        (".abc_20250101000000000.log.1_0-1-0", False),
        ("20250101000000000.commit", False),
    ],
)
def test_side_files_are_told_from_files_of_the_format(name: str, expected: bool) -> None:
    assert is_side_file(name) is expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fs.s3a.access.key", True),
        ("fs.s3a.secret.key", True),
        ("AWS_SESSION_TOKEN", True),
        ("azure_storage_sas_key", True),
        ("google_service_account_key", True),
        ("proxy_url", True),
        ("fs.s3a.endpoint", False),
        ("aws_region", False),
    ],
)
def test_secret_options_are_known_by_their_names(name: str, expected: bool) -> None:
    assert is_secret(name) is expected


def test_secret_is_masked_wherever_and_however_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "ambient/secret+1")
    monkeypatch.setenv("HOME_KEY", "no cloud's")
    secrets = secret_values({"fs.s3a.secret.key": "given/secret", "fs.s3a.endpoint": "http://host"})

    assert {"given/secret", "ambient/secret+1"} <= secrets
    assert not {"no cloud's", "http://host"} & secrets
    text = "x given/secret y ambient/secret+1 z given%2Fsecret ambient/secret%2B1 http://host"
    assert redact(text, secrets) == f"x {MASK} y {MASK} z {MASK} {MASK} http://host"


def test_secret_that_contains_another_is_masked_whole() -> None:
    assert redact("abcdef abcd", {"abcd", "abcdef"}) == f"{MASK} {MASK}"


def test_short_or_empty_secret_does_not_eat_the_text() -> None:
    assert redact("a bad day", {"", "a", "bad"}) == "a bad day"


@pytest.mark.parametrize(
    "text",
    [
        "GET https://user:hunter22@host/path",
        "<AWSAccessKeyId>hunter22</AWSAccessKeyId>",
        "https://h/?X-Amz-Credential=hunter22&X-Amz-Signature=hunter22&a=1",
        "https://a.blob.core.windows.net/c?sv=1&sig=hunter22&se=2",
        "Authorization: Bearer hunter22",
        'authorization: "AWS4-HMAC-SHA256 Credential=hunter22"',
        "-----BEGIN PRIVATE KEY-----\nhunter22\n-----END PRIVATE KEY-----",
        "grant_type=x&client_secret=hunter22",
    ],
)
def test_unknown_option_that_looks_like_a_credential_is_masked(text: str) -> None:
    masked = redact(text)
    assert "hunter22" not in masked
    assert MASK in masked


def test_innocent_text_stays() -> None:
    text = "Object at location t/.hoodie/20250101.commit not found: 404 https://host:9000/bucket?list-type=2&prefix=a"
    assert redact(text) == text
