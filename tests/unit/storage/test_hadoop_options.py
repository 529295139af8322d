"""Hadoop's options of object stores: who we are and how data is protected is honoured or refused, never dropped."""

from __future__ import annotations

import http.server
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.support.ports import free_port

from pyhudi.config.option import OptionWarning
from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.storage.open import open_storage
from pyhudi.storage.options import client_settings

KEYS = {"fs.s3a.access.key": "a", "fs.s3a.secret.key": "b"}
KEY_SETTINGS = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}
PROVIDER = "fs.s3a.aws.credentials.provider"
ALGORITHM, KEY = "fs.s3a.encryption.algorithm", "fs.s3a.encryption.key"


def store_settings(options: dict[str, str], authority: str = "data", scheme: str = "s3") -> dict[str, str]:
    return dict(client_settings(options, authority=authority, scheme=scheme).store)


@pytest.fixture(autouse=True)
def no_credentials_around(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AZURE_STORAGE_ACCOUNT_NAME"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({ALGORITHM: "AES256"}, {"aws_server_side_encryption": "AES256"}),
        ({"fs.s3a.server-side-encryption-algorithm": "aes256"}, {"aws_server_side_encryption": "AES256"}),
        (
            {ALGORITHM: "SSE-KMS", KEY: "arn:k"},
            {"aws_server_side_encryption": "aws:kms", "aws_sse_kms_key_id": "arn:k"},
        ),
        (
            {"fs.s3a.server-side-encryption-algorithm": "SSE-KMS", "fs.s3a.server-side-encryption.key": "k"},
            {"aws_server_side_encryption": "aws:kms", "aws_sse_kms_key_id": "k"},
        ),
        ({ALGORITHM: "DSSE-KMS"}, {"aws_server_side_encryption": "aws:kms:dsse"}),
        (
            {ALGORITHM: "SSE-C", KEY: "a2V5"},
            {"aws_server_side_encryption": "sse-c", "aws_sse_customer_key_base64": "a2V5"},
        ),
        ({"fs.s3a.requester.pays.enabled": "true"}, {"aws_request_payer": "true"}),
        ({"fs.s3a.requester.pays.enabled": "false", "fs.s3a.acl.default": "Private"}, {}),
        ({"fs.s3a.bucket.data.access.key": "x", "fs.s3a.bucket.data.secret.key": "y", **KEYS}, {
            "aws_access_key_id": "x", "aws_secret_access_key": "y"}),
        ({"fs.s3a.bucket.data.encryption.algorithm": "AES256", ALGORITHM: "SSE-C"}, {
            "aws_server_side_encryption": "AES256"}),
        ({"fs.s3a.bucket.other.access.key": "x", "fs.s3a.bucket.other.acl.default": "PublicRead"}, {}),
        ({PROVIDER: "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"}, {"aws_skip_signature": "true"}),
        ({PROVIDER: "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider", **KEYS}, KEY_SETTINGS),
        ({PROVIDER: "a.TemporaryAWSCredentialsProvider, EnvironmentVariableCredentialsProvider", **KEYS}, KEY_SETTINGS),
        ({PROVIDER: "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"}, {}),
        ({PROVIDER: "a.SimpleAWSCredentialsProvider,org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider"}, {}),
        ({"fs.s3a.threads.max": "10", "fs.s3a.impl": "x", "fs.s3a.connection.maximum": "5", "fs.s3.impl": "y"}, {}),
        ({"fs.gs.encryption.key": "k", "fs.azure.account.auth.type": "Custom"}, {}),
    ],
)  # fmt: skip
def test_option_of_s3a_becomes_a_setting(options: dict[str, str], settings: dict[str, str]) -> None:
    assert store_settings(options) == settings


@pytest.mark.parametrize(
    "options",
    [
        {ALGORITHM: "CSE-KMS", KEY: "k"},
        {"fs.s3a.encryption.context": "a=b"},
        {"fs.s3a.encryption.cse.kms.region": "eu"},
        {"fs.s3a.assumed.role.arn": "arn:role"},
        {"fs.s3a.acl.default": "PublicRead"},
        {"fs.s3a.security.credential.provider.path": "jceks://x"},
        {"hadoop.security.credential.provider.path": "jceks://x"},
        {"fs.s3a.custom.signers": "S:com.example.Signer"},
        {"fs.s3a.accesspoint.required": "true"},
        {"fs.s3a.bucket.data.accesspoint.arn": "arn:ap"},
        {"fs.s3a.endpoint.fips": "true"},
        {"fs.s3a.delegation.token.binding": "x"},
        {"fs.s3a.some.new.secret": "x"},
        {"fs.s3.enableServerSideEncryption": "true"},
        {"fs.s3.cse.enabled": "true"},
        {"fs.s3.customAWSCredentialsProvider": "x"},
        {PROVIDER: "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider"},
        {PROVIDER: "com.amazonaws.auth.profile.ProfileCredentialsProvider"},
        {PROVIDER: "com.example.MyProvider"},
        {PROVIDER: "a.EnvironmentVariableCredentialsProvider"},
        {PROVIDER: "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider", **KEYS},
        {PROVIDER: "a.SimpleAWSCredentialsProvider"},
    ],
)
def test_option_of_s3a_that_cannot_be_kept_is_refused_by_name(options: dict[str, str]) -> None:
    with pytest.raises(UnsupportedFeatureError) as caught:
        store_settings(options)
    assert caught.value.context["option"].lower().removeprefix("fs.s3a.") in next(iter(options)).lower()


def test_provider_of_the_instance_is_refused_where_the_environment_would_come_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = {PROVIDER: "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider"}
    assert store_settings(options) == {}

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody else")

    with pytest.raises(UnsupportedFeatureError, match="from this source: environment"):
        store_settings(options)


@pytest.mark.parametrize(
    "options",
    [{KEY: "k"}, {ALGORITHM: "SSE-C"}, {ALGORITHM: "AES256", KEY: "k"}, {"fs.s3a.requester.pays.enabled": "maybe"}],
)
def test_option_of_s3a_without_sense_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        store_settings(options)


def test_unknown_option_of_s3a_warns() -> None:
    with pytest.warns(OptionWarning, match=r"fs\.s3a\.create\.storage\.class has no effect"):
        store_settings({"fs.s3a.create.storage.class": "glacier"})


def test_proxy_of_s3a_is_the_proxy_of_the_client() -> None:
    options = {"fs.s3a.proxy.host": "proxy", "fs.s3a.proxy.username": "me", "fs.s3a.proxy.password": "p:w"}
    settings = client_settings({**options, "fs.s3a.proxy.port": "3128"}, authority="data")

    assert settings.client["proxy_url"] == "http://me:p%3Aw@proxy:3128"
    assert "p%3Aw" not in repr(settings)


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({"fs.gs.auth.service.account.json.keyfile": "/k.json"}, {"google_service_account": "/k.json"}),
        ({"google.cloud.auth.service.account.json.keyfile": "/k.json"}, {"google_service_account": "/k.json"}),
        (
            {"fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE", "fs.gs.auth.service.account.json.keyfile": "/k.json"},
            {"google_service_account": "/k.json"},
        ),
        ({"fs.gs.auth.type": "UNAUTHENTICATED"}, {"google_skip_signature": "true"}),
        ({"fs.gs.auth.null.enable": "true"}, {"google_skip_signature": "true"}),
        ({"fs.gs.storage.root.url": "http://localhost:1/"}, {"google_base_url": "http://localhost:1"}),
        ({"fs.gs.project.id": "p", "fs.gs.requester.pays.mode": "DISABLED", "fs.s3a.assumed.role.arn": "x"}, {}),
    ],
)
def test_option_of_gcs_becomes_a_setting(options: dict[str, str], settings: dict[str, str]) -> None:
    assert store_settings(options, scheme="gs") == settings


@pytest.mark.parametrize(
    "options",
    [
        {"fs.gs.encryption.algorithm": "AES256"},
        {"fs.gs.encryption.key": "k"},
        {"fs.gs.requester.pays.mode": "ENABLED"},
        {"fs.gs.auth.impersonation.service.account": "x"},
        {"fs.gs.auth.type": "USER_CREDENTIALS"},
        {"fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE"},
        {"fs.gs.auth.access.token.provider.impl": "x"},
        {"google.cloud.auth.service.account.enable": "false"},
    ],
)
def test_option_of_gcs_that_cannot_be_kept_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(UnsupportedFeatureError):
        store_settings(options, scheme="gs")


ACCOUNT = "c@acc.dfs.core.windows.net"
OF_ACCOUNT = "acc.dfs.core.windows.net"
CLIENT = {
    f"fs.azure.account.auth.type.{OF_ACCOUNT}": "OAuth",
    f"fs.azure.account.oauth.provider.type.{OF_ACCOUNT}": "org.apache.hadoop.x.ClientCredsTokenProvider",
    f"fs.azure.account.oauth2.client.id.{OF_ACCOUNT}": "id",
    f"fs.azure.account.oauth2.client.secret.{OF_ACCOUNT}": "secret",
    f"fs.azure.account.oauth2.client.endpoint.{OF_ACCOUNT}": "https://login.microsoftonline.com/ten/oauth2/token",
}


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({f"fs.azure.account.key.{OF_ACCOUNT}": "k"}, {"azure_storage_account_key": "k"}),
        ({"fs.azure.account.key.other.dfs.core.windows.net": "k"}, {}),
        (
            {"fs.azure.account.auth.type": "SAS", f"fs.azure.sas.fixed.token.{OF_ACCOUNT}": "sig"},
            {"azure_storage_sas_key": "sig"},
        ),
        (
            CLIENT,
            {
                "azure_storage_client_id": "id",
                "azure_storage_client_secret": "secret",
                "azure_storage_tenant_id": "ten",
                "azure_storage_authority_host": "https://login.microsoftonline.com",
            },
        ),
        ({"fs.azure.io.retry.max.retries": "3"}, {}),
    ],
)
def test_option_of_azure_becomes_a_setting(options: dict[str, str], settings: dict[str, str]) -> None:
    assert store_settings(options, authority=ACCOUNT, scheme="abfss") == settings


@pytest.mark.parametrize(
    "options",
    [
        {"fs.azure.encryption.encoded.client-provided-key": "k"},
        {"fs.azure.account.auth.type": "Custom"},
        {"fs.azure.account.auth.type": "SharedKey", "fs.azure.sas.fixed.token": "x"},
        {**CLIENT, f"fs.azure.account.oauth.provider.type.{OF_ACCOUNT}": "x.MsiTokenProvider"},
        {"fs.azure.account.keyprovider": "x"},
        {"fs.azure.sas.token.provider.type": "x"},
    ],
)
def test_option_of_azure_that_cannot_be_kept_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(UnsupportedFeatureError):
        store_settings(options, authority=ACCOUNT, scheme="abfss")


def test_option_of_an_account_needs_a_uri_that_names_one() -> None:
    with pytest.raises(ConfigError, match="names no account"):
        store_settings({f"fs.azure.account.key.{OF_ACCOUNT}": "k"}, authority="c", scheme="az")


@contextmanager
def recorder() -> Iterator[tuple[str, list[dict[str, str]]]]:
    """A store that accepts every put; its address, and the headers of what was sent."""
    sent: list[dict[str, str]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Stay silent."""

        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            sent.append({name.lower(): value for name, value in self.headers.items()})
            self.send_response(200)
            self.send_header("etag", '"1"')
            self.send_header("content-length", "0")
            self.end_headers()

    with http.server.ThreadingHTTPServer(("127.0.0.1", free_port()), Handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_port}", sent
        httpd.shutdown()
        thread.join()


def test_puts_are_encrypted_and_paid_for_as_the_options_say() -> None:
    with recorder() as (endpoint, sent), warnings.catch_warnings():
        warnings.simplefilter("error")
        options = {"fs.s3a.endpoint": endpoint, **KEYS, ALGORITHM: "SSE-KMS", KEY: "arn:k"}
        storage = open_storage("s3a://data/t", {**options, "fs.s3a.requester.pays.enabled": "true"})
        storage.put("x", b"1")
        with storage.open_output("y") as output:
            output.write(b"2")

    for headers in sent:
        assert headers["x-amz-server-side-encryption"] == "aws:kms"
        assert headers["x-amz-server-side-encryption-aws-kms-key-id"] == "arn:k"
        assert headers["x-amz-request-payer"] == "requester"
    assert len(sent) == 2


def test_anonymous_provider_signs_nothing_though_keys_are_given() -> None:
    with recorder() as (endpoint, sent):
        storage = open_storage(
            "s3a://data/t", {"fs.s3a.endpoint": endpoint, **KEYS, PROVIDER: "x.AnonymousAWSCredentialsProvider"}
        )
        storage.put("x", b"1")

    assert ["authorization" in headers for headers in sent] == [False]
