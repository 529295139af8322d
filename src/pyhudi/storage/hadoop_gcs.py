"""Translation of the options `fs.gs.*` of Google's Hadoop connector into settings of an obstore client."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pyhudi.errors import UnsupportedFeatureError
from pyhudi.storage.hadoop_names import Names, below, truth

PREFIX = "fs.gs."
OLDER_PREFIX = "google.cloud."
_KEY_FILE = "auth.service.account.json.keyfile"
_NAMES = Names(
    honoured=frozenset({_KEY_FILE, "auth.null.enable", "auth.type", "proxy.address", "storage.root.url"}),
    tuning=(
        *("application.name.suffix", "batch.threads", "block.size", "bucket.delete.enable", "cloud.logging.", "copy."),
        *("client.type", "create.items.conflict.check.enable", "delegation.token.renew.", "fadvise.", "glob.", "grpc."),
        *("hierarchical.namespace.", "http.", "impl", "implicit.dir.", "inputstream.", "lazy.init.enable", "list."),
        *("marker.file.pattern", "max.requests.per.batch", "max.wait.for.empty.object.creation", "outputstream."),
        *("operation.", "performance.cache.", "project.id", "reported.permissions", "rewrite.", "status.parallel."),
        *("storage.http.headers.", "storage.service.path", "tracelog.enable", "working.dir", "write."),
    ),
    harmless=MappingProxyType(
        {
            "auth.service.account.enable": frozenset({"true"}),
            "requester.pays.mode": frozenset({"disabled"}),
            "auth.access.token.provider.impl": frozenset(),
        }
    ),
)


def gcs_settings(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Settings of the store and of its client, from the options of a read or write.

    Raises:
        ConfigError: the value of an option is not valid.
        UnsupportedFeatureError: an option asks for an identity or a protection of data that pyhudi does not support.
    """
    # Older releases of the connector use the names `google.cloud.auth.…` instead of `fs.gs.auth.…`.
    given = {**below(options, OLDER_PREFIX), **below(options, PREFIX)}
    _NAMES.check(given, prefix=PREFIX)
    store: dict[str, str] = {}
    if _KEY_FILE in given:
        store["google_service_account"] = given[_KEY_FILE]
    if truth(f"{PREFIX}auth.null.enable", given.get("auth.null.enable", "false")):
        store["google_skip_signature"] = "true"
    if "storage.root.url" in given:
        store["google_base_url"] = given["storage.root.url"].rstrip("/")
    store |= _identity(given.get("auth.type", "").strip().upper(), has_key_file=_KEY_FILE in given)
    address = given.get("proxy.address", "").strip()
    return store, {"proxy_url": address if "://" in address else f"http://{address}"} if address else {}


def _identity(kind: str, *, has_key_file: bool) -> dict[str, str]:
    if kind == "UNAUTHENTICATED":
        return {"google_skip_signature": "true"}
    if kind in ("", "APPLICATION_DEFAULT") or (kind == "SERVICE_ACCOUNT_JSON_KEYFILE" and has_key_file):
        return {}
    raise UnsupportedFeatureError(
        "this type of authentication is not supported: use SERVICE_ACCOUNT_JSON_KEYFILE with its key file,"
        " APPLICATION_DEFAULT, or UNAUTHENTICATED",
        option=f"{PREFIX}auth.type",
        kind=kind,
    )
