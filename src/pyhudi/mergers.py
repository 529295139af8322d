"""Mergers: rules for two versions of a record, beyond "the newest version stays".

`RecordCount` adds up the rows of a key, `Stitching` builds wide rows from several streams. A rule of your own is any
class that fits `Merger` or `PreparingMerger`. `docs/mergers.md` shows all of them.
"""

from pyhudi.merge.mergers import RecordCount, Stitching
from pyhudi.merge.rules import Merger, PreparingMerger

__all__ = ["Merger", "PreparingMerger", "RecordCount", "Stitching"]
