"""Translation of storage options, with Hadoop's or obstore's names, into settings of an obstore client."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from pyhudi.errors import UnsupportedFeatureError
from pyhudi.storage.hadoop_azure import azure_settings
from pyhudi.storage.hadoop_gcs import OLDER_PREFIX, gcs_settings
from pyhudi.storage.hadoop_names import Names, below, truth
from pyhudi.storage.hadoop_s3a import s3a_settings

RETRIES = 8
RETRY_BACKOFF_MAX = timedelta(seconds=3)
RETRY_TIMEOUT = timedelta(seconds=60)
REQUEST_TIMEOUT = "120s"
"""Long enough for the upload of one part, 10 MiB, over a slow line."""

AZURE_SCHEMES = frozenset({"az", "abfs", "abfss"})
_CREDENTIAL_FILES = "hadoop.security.credential.provider.path"
_EMRFS_PREFIX = "fs.s3."
_EMRFS = Names(
    honoured=frozenset(),
    tuning=(
        "impl",
        "block.size",
        "buffer.dir",
        "consistent",
        "consistent.",
        "maxconnections",
        "maxretries",
        "multipart.",
    ),
    harmless={"enableserversideencryption": frozenset({"false"}), "cse.enabled": frozenset({"false"})},
)
"""Amazon's own file system, EMRFS: jobs that move from EMR set its options."""
_HADOOP_PREFIXES = ("fs.", "dfs.", OLDER_PREFIX, _CREDENTIAL_FILES)
_S3_ENDPOINT_NAMES = ("aws_endpoint", "aws_endpoint_url", "aws_endpoint_url_s3")
_AZURE_ENDPOINT_NAMES = ("azure_storage_endpoint", "azure_endpoint")
_CLIENT_NAMES = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "root_certificate",
        "timeout",
        "user_agent",
    }
)
_OFTEN_GIVEN = (
    *("aws_access_key_id", "aws_secret_access_key", "aws_session_token", "aws_region", "aws_default_region"),
    *("aws_skip_signature", "aws_virtual_hosted_style_request", "aws_server_side_encryption", "aws_sse_kms_key_id"),
    *("azure_storage_account_name", "azure_storage_account_key", "azure_storage_client_id"),
    *("azure_storage_client_secret", "azure_storage_tenant_id", "azure_storage_sas_key", "azure_skip_signature"),
    *("google_service_account", "google_service_account_key", "google_application_credentials"),
    *("google_skip_signature", *_S3_ENDPOINT_NAMES, *_AZURE_ENDPOINT_NAMES),
)
_AMBIENT = re.compile(
    r"(aws|azure|google|hadoop)_|((http|https|all|no)_proxy|krb5(ccname|_config)|service_account)$", re.IGNORECASE
)
_STORE_NAME = re.compile(r"^(aws|azure|google)_[a-z0-9_]+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """The settings of an obstore client. `repr` shows neither `store`, which holds the credentials, nor `client`."""

    store: Mapping[str, str] = field(default_factory=dict, repr=False)
    client: Mapping[str, str | bool] = field(default_factory=dict, repr=False)
    retries: int = RETRIES


def select_storage_options(options: Mapping[str, str]) -> dict[str, str]:
    """The storage options among the options of a read or write.

    Hadoop's names begin with `fs.`, and for HDFS with `dfs.`. obstore's names are `aws_*`, `azure_*`, `google_*` (in
    upper or lower case) and the names of client options, for example `allow_http`.
    """
    return {name: value for name, value in options.items() if _is_storage_option(name)}


def ambient_settings() -> frozenset[tuple[str, str]]:
    """The variables of the environment that a client of a store reads when it is made, with their values of now."""
    return frozenset((name, value) for name, value in os.environ.items() if _AMBIENT.match(name))


def nearest_option(name: str) -> str | None:
    """The option of obstore's that a misspelt one is most similar to."""
    return next(iter(difflib.get_close_matches(name.lower(), _OFTEN_GIVEN, n=1, cutoff=0.8)), None)


def client_settings(options: Mapping[str, str], *, authority: str, scheme: str = "s3") -> ClientSettings:
    """The client's settings for one bucket, from storage options (`select_storage_options`).

    Hadoop's options for other stores than that of the URI are ignored, and so are options that only tune Hadoop's
    client. Options for identity or for the protection of data are honoured or refused. Credentials, regions and
    endpoints that no option gives come from the environment, as obstore reads it. The client's constructor refuses a
    name that obstore does not know.

    Raises:
        ConfigError: the value of an option is not valid.
        UnsupportedFeatureError: an option asks for an identity or a protection of data that pyhudi does not support.
    """
    store: dict[str, str] = {}
    client: dict[str, str | bool] = {"timeout": REQUEST_TIMEOUT}
    for name, value in options.items():
        lower = name.lower()
        if lower in _CLIENT_NAMES:
            client[lower] = truth(name, value) if lower.startswith("allow_") else value
        elif not lower.startswith(_HADOOP_PREFIXES):
            store[lower] = value
    of_store, of_client, retries = _hadoop_settings(options, scheme, authority)
    store.update(of_store)
    client.update(of_client)
    if _is_plain(store, scheme):
        # The user has chosen a connection without encryption by writing `http://`.
        client["allow_http"] = True
    return ClientSettings(store=store, client=client, retries=RETRIES if retries is None else retries)


def _is_plain(store: Mapping[str, str], scheme: str) -> bool:
    """Whether the endpoint of a store is one without encryption: that of its options, or else of the environment."""
    names = _AZURE_ENDPOINT_NAMES if scheme in AZURE_SCHEMES else () if scheme == "gs" else _S3_ENDPOINT_NAMES
    named = [store[name] for name in names if name in store]
    found = named or [os.environ.get(name.upper(), "") for name in names]
    return any(endpoint.startswith("http://") for endpoint in found)


def _hadoop_settings(
    options: Mapping[str, str], scheme: str, authority: str
) -> tuple[dict[str, str], dict[str, str], int | None]:
    provider = next((name for name in options if name.lower() == _CREDENTIAL_FILES and options[name].strip()), None)
    if provider is not None:
        raise UnsupportedFeatureError(
            "credential files of Hadoop are not supported: give the credentials as options", option=provider
        )
    if scheme in AZURE_SCHEMES:
        return *azure_settings(options, authority), None
    if scheme == "gs":
        return *gcs_settings(options), None
    _EMRFS.check(below(options, _EMRFS_PREFIX), prefix=_EMRFS_PREFIX)
    return s3a_settings(options, authority)


def _is_storage_option(name: str) -> bool:
    lower = name.lower()
    return lower.startswith(_HADOOP_PREFIXES) or lower in _CLIENT_NAMES or _STORE_NAME.match(lower) is not None
