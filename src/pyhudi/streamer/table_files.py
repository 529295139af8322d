"""The tables of JVM Hudi's HoodieMultiTableStreamer: a property file that lists them, and one for each of them."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from pyhudi.api.arguments import HudiOptions
from pyhudi.config.option import text_of
from pyhudi.errors import ConfigError
from pyhudi.storage.options import select_storage_options
from pyhudi.streamer.config import StreamerConfig
from pyhudi.streamer.named_files import properties_of_file

_PREFIXES: Final = ("hoodie.streamer.", "hoodie.deltastreamer.")
_TABLES: Final = "ingestion.tablesToBeIngested"
_PATH: Final = "ingestion.targetBasePath"
_FILE: Final = re.compile(r"ingestion\..+\.configFile")
_TRANSFORMERS: Final = "transformer.class"
_TOPIC: Final = "source.kafka.topic"
_REGISTRY: Final = "schemaprovider.registry.url"
_REGISTRY_BASE: Final = "schemaprovider.registry.baseUrl"
_REGISTRY_ENDS: Final = ("schemaprovider.registry.urlSuffix", "schemaprovider.registry.sourceUrlSuffix")
_REGISTRY_TARGET: Final = "schemaprovider.registry.targetUrlSuffix"
_TABLE_NAME: Final = "hoodie.table.name"


def configs_of_folder(
    config_folder: str | os.PathLike[str],
    *,
    props: str | os.PathLike[str],
    base_path_prefix: str | os.PathLike[str] | None = None,
    hoodie_conf: HudiOptions | None = None,
    **arguments: Any,
) -> tuple[StreamerConfig, ...]:
    """The streamers of the tables that a property file lists, for `run_many`, as HoodieMultiTableStreamer has them.

    The tables are `hoodie.streamer.ingestion.tablesToBeIngested`, as `database.table` with commas between them; without
    a database it is `default`. The options of a table are those of its own file, over those of `props`. Its file is
    `hoodie.streamer.ingestion.<database>.<table>.configFile`, or `<database>_<table>_config.properties` in the folder.

    Args:
        config_folder: the folder with the property files of the tables: a path, or a URI of an object store.
        props: the property file with the list of tables, and with options of all of them.
        base_path_prefix: the folder of the tables, which are `<database>/<table>` in it, unless the file of a table
            says `hoodie.streamer.ingestion.targetBasePath`.
        hoodie_conf: options of all tables, over those of the files.
        arguments: the other fields of `StreamerConfig`, for all tables; a table may have other transformers, in
            `hoodie.streamer.transformer.class`.

    Returns:
        A streamer for each table, in the order of the list.

    Raises:
        ConfigError: a file is missing, or nothing says which tables there are, or where one is.

    Cost: a read for each file.
    """
    given = {name: text_of(value) for name, value in (hoodie_conf or {}).items() if value is not None}
    stores = select_storage_options(given)
    common = properties_of_file(props, stores)
    tables = [name.strip() for name in (_value({**common, **given}, _TABLES) or "").split(",") if name.strip()]
    if not tables:
        raise ConfigError(
            f"nothing says which tables there are: list them in {_PREFIXES[0]}{_TABLES}", props=os.fspath(props)
        )
    configs = []
    for table in tables:
        database, name = _database_and_name(table)
        key = f"ingestion.{database}.{name}.configFile"
        default = f"{os.fspath(config_folder).rstrip('/')}/{database}_{name}_config.properties"
        options = {**common, **properties_of_file(_value(common, key) or default, stores), **given}
        configs.append(_config_of_table(database, name, options, base_path_prefix, arguments))
    return tuple(configs)


def _config_of_table(
    database: str,
    name: str,
    options: Mapping[str, str],
    base_path_prefix: str | os.PathLike[str] | None,
    arguments: Mapping[str, Any],
) -> StreamerConfig:
    path = _value(options, _PATH)
    if path is None:
        if base_path_prefix is None:
            raise ConfigError(
                f"nothing says where the table is: give base_path_prefix, or {_PREFIXES[0]}{_PATH} in its file",
                table=f"{database}.{name}",
            )
        path = f"{os.fspath(base_path_prefix).rstrip('/')}/{database}/{name}"
    of_table: dict[str, Any] = {}
    if _TABLE_NAME not in options:
        of_table["target_table"] = f"{database}.{name}"
    transformers = _value(options, _TRANSFORMERS)
    if transformers is not None:
        of_table["transformer_class"] = transformers
    return StreamerConfig(
        path, **{**arguments, **of_table}, hoodie_conf={**_without_own(options), **_registry_of(options)}
    )


def _database_and_name(table: str) -> tuple[str, str]:
    database, _, name = table.rpartition(".")
    return database or "default", name


def _value(options: Mapping[str, str], name: str) -> str | None:
    """The value of an option under its name of today or its older one; None for an empty one, too."""
    return next((options[prefix + name] for prefix in _PREFIXES if options.get(prefix + name)), None)


def _registry_of(options: Mapping[str, str]) -> dict[str, str]:
    """The URL of the schema registry, where it is made of that of the registry and the topic."""
    base, topic = _value(options, _REGISTRY_BASE), _value(options, _TOPIC)
    if base is None or topic is None or _value(options, _REGISTRY) is not None:
        return {}
    return {_PREFIXES[0] + _REGISTRY: f"{base}{topic}{_registry_end(options)}"}


def _registry_end(options: Mapping[str, str]) -> str:
    return next(filter(None, (_value(options, name) for name in _REGISTRY_ENDS)), "")


def _without_own(options: Mapping[str, str]) -> dict[str, str]:
    """The options without those of lists of tables. A streamer of one table refuses what it does not know.

    So it refuses a target schema of the registry, unless it is that of the source.
    """
    own = {_TABLES, _PATH, _TRANSFORMERS, _REGISTRY_BASE, *_REGISTRY_ENDS}
    if _value(options, _REGISTRY_TARGET) == _registry_end(options):
        own.add(_REGISTRY_TARGET)
    return {name: value for name, value in options.items() if not _is_among(name, own)}


def _is_among(option: str, own: Collection[str]) -> bool:
    name = next((option.removeprefix(prefix) for prefix in _PREFIXES if option.startswith(prefix)), "")
    return name in own or _FILE.fullmatch(name) is not None
