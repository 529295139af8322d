"""A table is data, never code: nothing that is stored in one is unpickled, evaluated, or imported by its name.

See the guarantee on confinement in docs/reliability.md.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.support.tables import MOR, new_table, open_table, rehandled, rows

from pyhudi.config.enums import MergeMode
from pyhudi.config.jvm_names import MERGE_STRATEGY_IDS
from pyhudi.config.options_merging import MERGER_KEY
from pyhudi.engine.local import LocalEngine
from pyhudi.errors import HudiError
from pyhudi.format.properties import format_properties, parse_properties
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import PROPERTIES_PATH

SOURCE = Path(__file__).parents[2] / "src" / "pyhudi"
MODULES = sorted(SOURCE.rglob("*.py"))

CODE_FROM_BYTES = {
    "pickle",
    "cPickle",
    "cloudpickle",
    "dill",
    "marshal",
    "shelve",
    "jsonpickle",
    "joblib",
    "yaml",
    "toml",
}
CODE_FROM_TEXT = {"eval", "exec", "compile", "__import__", "execfile"}
OTHER_PROGRAMS = {"subprocess", "pty", "commands", "ctypes", "cffi"}
CALLS_OF_PROGRAMS = {"system", "popen", "spawnl", "spawnv", "execv", "execve", "fork"}

ALLOWED = {
    ("spark/parcels.py", "pickle"): "tasks, on Spark's own channel, which pickles whatever crosses it",
    ("spark/parcels.py", "cloudpickle"): "the same",
    ("spark/outcomes.py", "pickle"): "results of tasks, on the same channel",
    ("spark/outcomes.py", "cloudpickle"): "the same",
    ("spark/reads/slice_tasks.py", "cloudpickle"): "a plan, inside of functions that Spark pickles",
    ("spark/reads/log_columns.py", "pickle"): "the plan that this program's driver made",
    ("spark/reads/cdc.py", "pickle"): "the plan that this program's driver made",
    ("spark/reads/cdc.py", "cloudpickle"): "the same, before it crosses Spark's channel",
    ("hooks/callbacks.py", "import_module"): "functions that the options of a call name",
    ("spark/java.py", "subprocess"): "asks the user's Java for its version",
    ("doctor/machine.py", "subprocess"): "asks the machine's Java for its version",
    ("__init__.py", "import_module"): "the names of this package",
    ("commands/command_line.py", "import_module"): "the module of the command that a person typed, out of a list",
    ("spark/enable.py", "import_module"): "the classes of pyspark that are wrapped",
    ("sql/arguments.py", "import_module"): "the formatter of pyspark, classic or Connect",
    ("spark/frames.py", "import_module"): "the class of DataFrames of a session",
    ("sql/frames/install_names.py", "import_module"): "the same",
    ("sql/frames/install_write_to.py", "import_module"): "the same",
    ("transaction/locks/zookeeper.py", "import_module"): "kazoo, if it is installed",
    ("transaction/locks/dynamodb.py", "import_module"): "boto3, if it is installed",
    ("index/key_value/stores/redis.py", "import_module"): "redis, if it is installed",
    ("index/key_value/stores/hbase.py", "import_module"): "happybase, if it is installed",
    ("index/key_value/stores/open.py", "import_module"): "an index that the options of a write name",
    ("merge/table_rules.py", "import_module"): "mergers that the options of a call name; see the tests below",
}
"""Each with its reason. Whoever adds a line has to say why no byte of a table gets there."""


def suspicious(path: Path) -> Iterator[str]:
    """Names in a module that could turn bytes or text into running code."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names=names):
                yield from (alias.name.partition(".")[0] for alias in names)
            case ast.ImportFrom(module=module, names=names):
                yield (module or "").partition(".")[0]
                yield from (alias.name for alias in names)
            case ast.Call(func=ast.Name(id=name)) if name in CODE_FROM_TEXT | {"import_module"}:
                yield name
            case ast.Call(func=ast.Attribute(attr=name)) if name in CALLS_OF_PROGRAMS | {
                "import_module",
                "read_pickle",
            }:
                yield name
            case ast.keyword(arg="allow_pickle"):
                yield "allow_pickle"


FORBIDDEN = (
    CODE_FROM_BYTES
    | CODE_FROM_TEXT
    | OTHER_PROGRAMS
    | CALLS_OF_PROGRAMS
    | {"import_module", "read_pickle", "allow_pickle"}
)


def test_no_module_turns_bytes_or_text_into_code() -> None:
    found = {
        (str(path.relative_to(SOURCE)), name) for path in MODULES for name in suspicious(path) if name in FORBIDDEN
    }
    assert found == set(ALLOWED)


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from pickle import loads",
        "eval('1')",
        "import os\nos.system('x')",
        "x.popen('y')",
        "np.load(f, allow_pickle=True)",
        "import yaml as y",
        "importlib.import_module(name)",
    ],
)
def test_the_rule_sees_what_it_forbids(code: str, tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(code)
    assert FORBIDDEN & set(suspicious(tmp_path / "x.py"))


# -- names of classes in a table --------------------------------------------------------------------------------------

KEYS = (
    "hoodie.compaction.payload.class",
    "hoodie.datasource.write.payload.class",
    "hoodie.table.keygenerator.class",
    "hoodie.datasource.write.keygenerator.class",
    "hoodie.table.keygenerator.type",
    "hoodie.record.merge.mode",
    "hoodie.record.merge.strategy.id",
    "hoodie.write.record.merge.custom.implementation.classes",
    "hoodie.datasource.write.record.merger.impls",
    "hoodie.record.merge.property.pyhudi.merger",
    "hoodie.write.lock.provider",
    "hoodie.compaction.strategy",
    "hoodie.table.legacy.payload.class",
    "hoodie.table.base.file.format",
    "hoodie.index.class",
    "hoodie.bootstrap.index.class",
    "hoodie.table.partition.fields",
)


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module that can be imported, and leaves a file behind if it is."""
    sprung = tmp_path / "sprung"
    (tmp_path / "pyhudi_trap.py").write_text(
        f"open({str(sprung)!r}, 'w').close()\n"
        "class Merger:\n    name = 'trap'\n    def merge(self, older, newer):\n        return newer\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("pyhudi_trap", None)
    return sprung


NAMES = (
    "os.system",
    "os:system",
    "builtins.eval",
    "builtins:eval",
    "subprocess:Popen",
    "pyhudi_trap:Merger",
    "pyhudi_trap.Merger",
    "java.lang.Runtime",
    "org.apache.hudi.Evil",
    "${jndi:ldap://x}",
    "__import__('os')",
)


@pytest.fixture(scope="module")
def sound() -> dict[str, bytes]:
    """The files of a merge-on-read table with rows in base files and logs."""
    storage = MemoryStorage()
    new_table(storage, **MOR).upsert(rows((1, "oslo", 1, "a")))
    open_table(storage, **MOR).upsert(rows((1, "oslo", 2, "b")))
    return {info.path: storage.read(info.path) for info in storage.list_recursive("")}


def poisoned(sound: dict[str, bytes], **choice: str) -> Storage:
    """The table, some properties of which are somebody's choice."""
    storage = MemoryStorage()
    for path, data in sound.items():
        storage.put(path, data)
    values = parse_properties(sound[PROPERTIES_PATH], path=PROPERTIES_PATH)
    storage.put(PROPERTIES_PATH, format_properties({**values, **choice}, comment="poisoned"))
    return storage


def uses(storage: Storage) -> tuple[Callable[[], object], ...]:
    return (
        lambda: open_table(storage).scan().to_arrow(),
        lambda: open_table(storage).upsert(rows((1, "oslo", 3, "c"))),
        lambda: open_table(storage).services.compact().num_rows,
    )


@pytest.mark.parametrize("key", KEYS)
def test_class_that_a_table_names_is_never_loaded(key: str, trap: Path, sound: dict[str, bytes]) -> None:
    loaded = set(sys.modules)
    for name in NAMES:
        every_use = uses(poisoned(sound, **{key: name}))
        # Reading shows what opening does with a name; the trap, which would be seen, gets all that there is to do.
        for use in every_use if name.startswith("pyhudi_trap") else every_use[:1]:
            with suppress(HudiError):
                use()
    custom = {
        "hoodie.record.merge.mode": "CUSTOM",
        "hoodie.record.merge.strategy.id": MERGE_STRATEGY_IDS[MergeMode.CUSTOM],
        MERGER_KEY: "pyhudi_trap:Merger",
    }
    for use in uses(poisoned(sound, **{**custom, key: "pyhudi_trap:Merger"})):
        with suppress(HudiError):
            use()
    assert not trap.exists()
    assert "pyhudi_trap" not in sys.modules
    assert not {name for name in set(sys.modules) - loaded if name.startswith(("pyhudi_trap", "subprocess", "java"))}


def test_class_that_the_caller_names_is_loaded(trap: Path) -> None:
    storage = MemoryStorage()
    custom = {"hoodie.write.record.merge.custom.implementation.classes": "pyhudi_trap:Merger"}
    new_table(storage, **{**MOR, **custom})
    assert trap.exists(), "the trap of the test before must be one that can spring"
    sys.modules.pop("pyhudi_trap", None)


# -- files that tasks exchange ----------------------------------------------------------------------------------------


class LookingEngine(LocalEngine):
    """Looks at the files that are exchanged before rows are sent."""

    exchanged: list[bytes] = []  # noqa: RUF012

    def exchange(self, exchange: Any) -> Any:
        folder = exchange.files.folder
        inside = Path(folder.storage.uri.removeprefix("file:"), folder.path)
        self.exchanged += [path.read_bytes() for path in inside.iterdir()]
        return super().exchange(exchange)


def test_rows_are_exchanged_as_arrow_and_not_as_pickles() -> None:
    storage, engine = MemoryStorage(), LookingEngine()
    new_table(storage).upsert(rows((1, "oslo", 1, "a")))

    rehandled(open_table(storage), engine=engine).upsert(rows((1, "oslo", 2, "b"), (2, "rome", 1, "c")))

    exchanged = engine.exchanged
    assert exchanged
    assert {data[:6] for data in exchanged} == {b"ARROW1"}
