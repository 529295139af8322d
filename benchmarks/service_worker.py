"""The services of one peer in one process: `python service_worker.py '<json>'`, started by `services.py`.

The last line on stdout is a JSON object: seconds by service.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol

SORT = {"hoodie.clustering.plan.strategy.sort.columns": "price"}
OPTIONS = {
    "hoodie.metadata.enable": "false",
    "hoodie.clean.commits.retained": "1",
    "hoodie.clustering.plan.strategy.max.num.groups": "1000",
}
KEEP = 5


class Services(Protocol):
    """The services of a table, by one peer."""

    def clean(self) -> None: ...
    def archive(self) -> None: ...
    def cluster(self, options: dict[str, str]) -> None: ...


class OfPyhudi:
    def __init__(self, table: str, spark: Any) -> None:
        import pyhudi

        self._table = pyhudi.HudiTable.for_path(table, spark=spark) if spark else pyhudi.HudiTable.for_path(table)

    def clean(self) -> None:
        assert self._table.services.clean(hudi_options=OPTIONS)

    def archive(self) -> None:
        keep = {"hoodie.keep.min.commits": str(KEEP), "hoodie.keep.max.commits": str(KEEP + 1)}
        assert self._table.services.archive(hudi_options={**OPTIONS, **keep})

    def cluster(self, options: dict[str, str]) -> None:
        assert self._table.services.cluster(hudi_options={**OPTIONS, **options}).num_rows


class OfJvmHudi:
    def __init__(self, table: str, spark: Any) -> None:
        self._path, self._name, self._sql = table, Path(table).name, spark.sql
        self._sql(f"CREATE TABLE {self._name} USING hudi LOCATION '{table}'")

    def clean(self) -> None:
        assert self._sql(f"CALL run_clean(table => '{self._name}', {_sql_options(OPTIONS)})").collect()

    def archive(self) -> None:
        # The last argument: how many commits the cleaner is taken to retain, which must be fewer.
        call = f"min_commits => {KEEP}, max_commits => {KEEP + 1}, retain_commits => 1"
        assert self._sql(f"CALL archive_commits(path => '{self._path}', {call})").collect()[0][0] == 0

    def cluster(self, options: dict[str, str]) -> None:
        every = _sql_options({**OPTIONS, **options})
        assert self._sql(f"CALL run_clustering(path => '{self._path}', {every})").collect()


def _sql_options(options: dict[str, str]) -> str:
    return "options => '{}'".format(",".join(f"{key}={value}" for key, value in options.items()))


def main() -> None:
    request = json.loads(sys.argv[1])
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    module, _, name = request["peer"].partition(":")
    peer = getattr(importlib.import_module(module), name)(Path(request["work"]), request["jars"])
    peer.start()
    spark = getattr(peer, "spark", None)
    kind: Callable[[str, Any], Services] = OfJvmHudi if request["jars"] else OfPyhudi
    seconds: dict[str, float] = {}
    for turn in ("warm_up", "table"):
        plain, of_sort = (kind(request["copies"][f"{turn}_{copy}"], spark) for copy in ("plain", "sorted"))
        seconds = {
            "clean": _timed(plain.clean),
            "archive": _timed(plain.archive),
            "cluster": _timed(partial(plain.cluster, {})),
            "cluster sorted": _timed(partial(of_sort.cluster, SORT)),
        }
    peer.stop()
    print(json.dumps(seconds), file=out, flush=True)


def _timed(run: Callable[[], Any]) -> float:
    os.sync()
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
