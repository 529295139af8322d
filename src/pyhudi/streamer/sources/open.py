"""The sources by the names of JVM Hudi's classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyhudi.config.options_streamer import FolderOptions
from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.storage.open import open_storage
from pyhudi.streamer.sources.files import FileSource
from pyhudi.streamer.sources.protocol import Source

if TYPE_CHECKING:
    from pyhudi.streamer.settings import Settings

_FILES: Final = {
    "ParquetDFSSource": "parquet",
    "ORCDFSSource": "orc",
    "OrcDFSSource": "orc",
    "AvroDFSSource": "avro",
    "JsonDFSSource": "json",
    "CsvDFSSource": "csv",
}
KNOWN: Final = tuple(_FILES)


def open_source(settings: Settings) -> Source:
    """The source of a streamer. Raises `UnsupportedFeatureError` for a class that is not built. Cost: none."""
    name = settings.source_class.rpartition(".")[2]
    if name in _FILES:
        options = settings.group(FolderOptions)
        if options.root is None:
            raise ConfigError(f"{name} needs hoodie.streamer.source.dfs.root, the folder with the files")
        if settings.client:
            raise ConfigError("these are no options of a table or a store", given=sorted(settings.client))
        return FileSource(_FILES[name], open_storage(options.root, settings.options), options)
    raise UnsupportedFeatureError("this source is not built", source_class=settings.source_class, known=KNOWN)
