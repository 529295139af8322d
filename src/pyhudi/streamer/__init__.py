"""The streamer: from files and queues into tables, in place of JVM Hudi's HoodieStreamer."""

from pyhudi.streamer.config import StreamerConfig
from pyhudi.streamer.loop import run
from pyhudi.streamer.many import TableResult, run_many
from pyhudi.streamer.result import IngestedBatch, StreamerResult
from pyhudi.streamer.table_files import configs_of_folder
from pyhudi.streamer.transformers import RowWise

__all__ = [
    "IngestedBatch",
    "RowWise",
    "StreamerConfig",
    "StreamerResult",
    "TableResult",
    "configs_of_folder",
    "run",
    "run_many",
]
