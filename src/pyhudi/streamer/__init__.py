"""The streamer: from files and queues into tables, in place of JVM Hudi's HoodieStreamer."""

from pyhudi.streamer.config import StreamerConfig
from pyhudi.streamer.loop import run
from pyhudi.streamer.result import IngestedBatch, StreamerResult

__all__ = ["IngestedBatch", "StreamerConfig", "StreamerResult", "run"]
