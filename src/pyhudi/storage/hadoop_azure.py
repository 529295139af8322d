"""Translation of the options `fs.azure.*` of Hadoop's ABFS into settings of an obstore client."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from types import MappingProxyType

from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.storage.hadoop_names import Names, below

PREFIX = "fs.azure."
_ACCOUNT = re.compile(r"^(?P<name>.+?)\.(?P<account>[a-z0-9]+)\.(?:dfs|blob)\.[a-z0-9.-]+$")
_TENANT = re.compile(r"^https://[^/]+/(?P<tenant>[^/]+)/oauth2/(?:v2\.0/)?token$")
_CLIENT = MappingProxyType(
    {
        "account.oauth2.client.id": "azure_storage_client_id",
        "account.oauth2.client.secret": "azure_storage_client_secret",
    }
)
_ENDPOINT = "account.oauth2.client.endpoint"
_OF_AUTH: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "SharedKey": frozenset({"account.key"}),
        "SAS": frozenset({"sas.fixed.token"}),
        "OAuth": frozenset({"account.oauth.provider.type", *_CLIENT, _ENDPOINT}),
    }
)
_NAMES = Names(
    honoured=frozenset({"account.auth.type", *(name for names in _OF_AUTH.values() for name in names)}),
    tuning=(
        *("abfs.", "always.use.https", "always.readbuffer", "appendblob.", "atomic.rename.key", "block.", "buffered."),
        *("channel.mode", "cluster.name", "concurrentrequestcount.", "createremotefilesystem.", "custom.", "data."),
        *(
            "disable.outputstream.flush",
            "enable.",
            "fs.",
            "impl",
            "infinite-lease.",
            "io.",
            "lease.",
            "list.",
            "networking.",
        ),
        *("read.", "readahead.", "readaheadqueue.", "rename.", "secure.mode", "ssl.channel.mode", "tracingheader."),
        *("use.", "user.agent.prefix", "write."),
    ),
    harmless=MappingProxyType({}),
)


def azure_settings(options: Mapping[str, str], authority: str) -> tuple[dict[str, str], dict[str, str]]:
    """Settings of the store and of its client, for the account in the URI, from the options of a read or write.

    An option for this account takes precedence over the same option for all accounts. Options for other accounts are
    ignored.

    Raises:
        ConfigError: an option that the type of authentication needs is missing or not valid.
        UnsupportedFeatureError: an option asks for an identity or a protection of data that pyhudi does not support.
    """
    in_uri = authority.partition("@")[2].partition(".")[0]
    given = _of_account(below(options, PREFIX), in_uri or _named_account(options))
    _NAMES.check(given, prefix=PREFIX)
    kind = given.get("account.auth.type", "").strip()
    if not kind:
        kind = "SharedKey" if "account.key" in given else ""
    wanted = next((names for known, names in _OF_AUTH.items() if known.lower() == kind.lower()), None)
    others = {name for names in _OF_AUTH.values() for name in names} - (wanted or frozenset())
    if (kind and wanted is None) or others & given.keys():
        raise UnsupportedFeatureError(
            "this type of authentication, or this mixture of types, is not supported: use SharedKey with account.key,"
            " SAS with sas.fixed.token, or OAuth with ClientCredsTokenProvider, and only the options of one of them",
            option=f"{PREFIX}account.auth.type",
        )
    if kind.lower() == "oauth":
        return _client_credentials(given), {}
    store = {"account.key": "azure_storage_account_key", "sas.fixed.token": "azure_storage_sas_key"}
    return {store[name]: given[name] for name in given.keys() & store.keys()}, {}


def _named_account(options: Mapping[str, str]) -> str:
    """The account of a URI that names none: from obstore's own option, else from the environment."""
    lower = {name.lower(): value for name, value in options.items()}
    return lower.get("azure_storage_account_name") or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME", "")


def _of_account(everything: Mapping[str, str], account: str) -> dict[str, str]:
    own: dict[str, str] = {}
    general: dict[str, str] = {}
    for name, value in everything.items():
        found = _ACCOUNT.match(name)
        if found is None:
            general[name] = value
        elif not account:
            raise ConfigError(
                "this option is for one account, but the URI names no account: write"
                " abfss://container@account.dfs.core.windows.net/folder",
                option=f"{PREFIX}{found['name']}.{found['account']}",
            )
        elif found["account"] == account.lower():
            own[found["name"]] = value
    return general | own


def _client_credentials(given: Mapping[str, str]) -> dict[str, str]:
    provider = given.get("account.oauth.provider.type", "").rpartition(".")[2]
    if provider != "ClientCredsTokenProvider":
        raise UnsupportedFeatureError(
            "for OAuth only ClientCredsTokenProvider is supported", option=f"{PREFIX}account.oauth.provider.type"
        )
    tenant = _TENANT.match(given.get(_ENDPOINT, "").strip())
    if tenant is None or not _CLIENT.keys() <= given.keys():
        raise ConfigError(
            "OAuth needs the client's id and secret, and an endpoint of the form https://host/tenant/oauth2/token",
            option=f"{PREFIX}{_ENDPOINT}",
        )
    host = given[_ENDPOINT].strip().split("/")[2]
    settings = {setting: given[name] for name, setting in _CLIENT.items()}
    return {**settings, "azure_storage_tenant_id": tenant["tenant"], "azure_storage_authority_host": f"https://{host}"}
