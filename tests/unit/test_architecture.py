"""The rules of docs/design/architecture.md that a machine can check: rooms, effects, sizes, forbidden texts."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.config.known_properties import PROPERTIES
from pyhudi.config.option import options_of
from pyhudi.config.refused_keys import is_refusable
from pyhudi.config.registry import OPTIONS, SECTIONS
from pyhudi.config.unsupported_keys import unsupported_area

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src" / "pyhudi"
UNIT_TESTS = ROOT / "tests" / "unit"
ROOMS = tuple(
    re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/design/architecture.md").read_text(encoding="utf-8"), re.MULTILINE)
)
"""A room imports only from those before it, and from itself."""
SPARK_ROOMS = {"spark", "sql"}

# The places where the world outside the Storage is touched, each with its reason.
EFFECTS_ALLOWED = {
    "storage": "this is what storage is for",
    "environment.py": "the clock and the source of ids",
    "transaction/heartbeat.py": "which process lives is asked of the operating system",
    "transaction/locks/table_lock.py": "the table lock on local disk is a lock of the operating system",
    "io/log/records.py": "log records that outgrow memory go to a temporary file of the task, not of the table",
    "engine/spilled_rows.py": "rows that outgrow memory in a bulk insert are a temporary file of the task",
    "commands/inspect.py": "the page goes into a file that is no part of a table",
    "commands/output.py": "what a reader that closed its pipe would have got goes to the null device",
    "spark": "sessions, Java and worker processes are outside of any table",
    "testing/simulation/explore.py": "random exploration takes its choices from a seed",
}
EFFECT_MODULES = {"random", "secrets", "shutil", "tempfile", "time"}
EFFECT_CALLS = {
    "os": "link listdir makedirs mkdir open remove removedirs rename replace rmdir scandir truncate unlink walk write",
    "uuid": "uuid1 uuid4",
    "datetime": "now today utcnow",
    "date": "today",
}
PATH_METHODS = {
    "hardlink_to",
    "iterdir",
    "mkdir",
    "read_bytes",
    "read_text",
    "rglob",
    "rmdir",
    "symlink_to",
    "touch",
    "unlink",
    "write_bytes",
    "write_text",
}
LINES_PER_MODULE = 600
CHARACTERS_PER_TEST_NAME = 90
LINES_PER_FUNCTION = 70
LINES_OF_THE_TABLE_CLASS = 460

FILE_NAMES = {"hoodie.properties", "hoodie.properties.backup"}
"""Texts that look like a key and are none."""
ONLY_CHECKED = {"translator", "incremental_format", "merge_type", "mode", "is_managed"}
"""Options whose legal values all mean the same: that the value is legal is all there is to honour."""


@functools.cache
def modules() -> tuple[Path, ...]:
    return tuple(sorted(SOURCE.rglob("*.py")))


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def room_of(path: Path) -> str:
    return name_of(path).split("/")[0].removesuffix(".py")


@dataclass(frozen=True)
class Import:
    """One imported name: where, and whether it is loaded with the module (not in a function, not for types only)."""

    line: int
    name: str
    is_eager: bool
    is_for_types: bool

    @property
    def package(self) -> str:
        return self.name.split(".")[0]


@functools.cache
def imports_of(path: Path) -> tuple[Import, ...]:
    """Every import, wherever in the file it stands."""
    tree = tree_of(path)
    lazy = _imports_below(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    for_types = _imports_below(
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    )
    found = []
    for node in _imports_below([tree]):
        names = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}:{node.lineno}: relative import"
            # `from pyhudi import errors` imports a module: its full name is what counts.
            names = [node.module or "", *(f"{node.module}.{name}" for name in names)]
        found += [Import(node.lineno, name, node not in lazy | for_types, node in for_types) for name in names]
    return tuple(found)


def _imports_below(nodes: Iterable[ast.AST]) -> set[ast.Import | ast.ImportFrom]:
    return {node for above in nodes for node in ast.walk(above) if isinstance(node, (ast.Import, ast.ImportFrom))}


def test_every_room_has_its_place_in_the_order():
    assert {room_of(path) for path in modules()} <= {*ROOMS, "__init__"}


def test_room_imports_only_from_rooms_before_it():
    wrong = []
    for path in modules():
        room = room_of(path)
        for found in imports_of(path):
            parts = found.name.split(".")
            if room == "__init__" or found.package != "pyhudi" or len(parts) < 2 or parts[1] not in ROOMS:
                continue
            if ROOMS.index(parts[1]) > ROOMS.index(room):
                wrong.append(f"{name_of(path)}:{found.line} imports {found.name}")
    assert wrong == []


def test_no_module_imports_itself_by_way_of_others():
    """No circle among modules, imports for types and in functions included."""
    names = {".".join(("pyhudi", *path.relative_to(SOURCE).with_suffix("").parts)): path for path in modules()}
    graph = {name: {found.name for found in imports_of(path)} & names.keys() - {name} for name, path in names.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


def test_only_spark_and_sql_import_pyspark():
    wrong = [
        f"{name_of(path)}:{found.line}"
        for path in modules()
        if room_of(path) not in SPARK_ROOMS
        for found in imports_of(path)
        if found.package in {"pyspark", "py4j"} and not found.is_for_types
    ]
    assert wrong == []


def test_everything_outside_spark_loads_without_pyspark():
    names = [
        ".".join(("pyhudi", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
        for path in modules()
        if room_of(path) not in SPARK_ROOMS
    ]
    program = (
        "import importlib, sys\n"
        "for blocked in ('pyspark', 'py4j'):\n"
        "    sys.modules[blocked] = None\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n"
    )
    run = subprocess.run([sys.executable, "-c", program, *names], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_commands_that_look_load_nothing_that_reads_rows_or_writes(tmp_path: Path):
    """Loading is most of what such a command costs."""
    schema = pa.schema([("id", pa.int64())])
    pyhudi.HudiTable.create(str(tmp_path), schema=schema, record_key="id").insert(pa.table({"id": [1]}))
    program = (
        "import sys\n"
        "from pyhudi.commands.command_line import main\n"
        "for command in ('describe', 'schema', 'history', 'timeline', 'files', 'partitions'):\n"
        "    assert main([command, sys.argv[1]]) == 0\n"
        "rooms = {'.'.join(name.split('.')[:2]) for name in sys.modules}\n"
        "wrong = {'pyhudi.read', 'pyhudi.transaction', 'pyhudi.index', 'pyhudi.tasks'} & rooms\n"
        "wrong |= {'psutil', 'filelock', 'pandas', 'pyarrow.dataset', 'pyhudi.write.run'} & sys.modules.keys()\n"
        "sys.exit(', '.join(sorted(wrong)) or None)\n"
    )
    run = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_opening_a_table_and_planning_a_read_loads_no_pandas(tmp_path: Path):
    """It takes longer to load than all of pyhudi; pyarrow loads it, and so do arrays of Python values."""
    schema = pa.schema([("id", pa.int64())])
    pyhudi.HudiTable.create(str(tmp_path), schema=schema, record_key="id").insert(pa.table({"id": [1]}))
    program = (
        "import sys, pyhudi\n"
        "table = pyhudi.HudiTable.for_path(sys.argv[1])\n"
        "table.scan(['id'])\n"
        "loaded = {'pandas', 'pyarrow.dataset', 'pyhudi.write.run', 'pyhudi.write.create'} & sys.modules.keys()\n"
        "table.inspect.detail(), table.inspect.history(), table.inspect.columns(), table.indexes.list()\n"
        "sys.exit(', '.join(loaded | {'pandas'} & sys.modules.keys()) or None)\n"
    )
    run = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def effects_in(path: Path) -> Iterator[str]:
    """Everything in a module that touches files, clocks or randomness by itself, as `line: what`."""
    for found in imports_of(path):
        if found.name in EFFECT_MODULES:
            yield f"{found.line}: import {found.name}"
    for node in ast.walk(tree_of(path)):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        if isinstance(function, ast.Name) and function.id == "open":
            yield f"{node.lineno}: open()"
        elif isinstance(function, ast.Attribute):
            owner = function.value
            owner_name = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")
            if function.attr in EFFECT_CALLS.get(owner_name, "").split():
                yield f"{node.lineno}: {owner_name}.{function.attr}()"
            elif function.attr in PATH_METHODS and owner_name != "storage":
                yield f"{node.lineno}: .{function.attr}()"


def test_files_clock_and_randomness_are_touched_only_where_that_is_the_job():
    wrong = [
        f"{name_of(path)}:{effect}"
        for path in modules()
        if not any(name_of(path) == place or name_of(path).startswith(f"{place}/") for place in EFFECTS_ALLOWED)
        for effect in effects_in(path)
    ]
    assert wrong == []


def test_no_module_is_too_long_to_read():
    lengths = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in modules()}
    assert {name: lines for name, lines in lengths.items() if lines > LINES_PER_MODULE} == {}


def test_table_class_has_the_daily_verbs_only():
    """What is not done every day goes under a noun, see docs/design/public_face.md."""
    lines = (SOURCE / "api" / "hudi_table.py").read_text(encoding="utf-8").splitlines()
    assert len(lines) < LINES_OF_THE_TABLE_CLASS


def test_no_function_is_too_long_to_read():
    lengths = {
        f"{name_of(path)}:{node.lineno} {node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for path in modules()
        for node in ast.walk(tree_of(path))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    assert {name: lines for name, lines in lengths.items() if lines > LINES_PER_FUNCTION} == {}


def test_the_unit_tests_mirror_the_rooms():
    folders = {path.parent.relative_to(UNIT_TESTS) for path in UNIT_TESTS.rglob("test_*.py")}
    assert {folder.as_posix() for folder in folders if not (SOURCE / folder).is_dir()} == set()


def test_no_test_module_imports_from_another():
    tests = UNIT_TESTS.parent
    wrong = [
        f"{path.relative_to(tests)}: {found.group()}"
        for path in tests.rglob("*.py")
        for found in re.finditer(
            r"^ *from tests\.\S*\btest_.*|^ *from tests\.\S* import .*\btest_.*", path.read_text(), re.M
        )
    ]
    assert wrong == []


def test_no_test_replaces_a_private_name_by_its_text():
    tests = UNIT_TESTS.parent
    wrong = [
        f"{path.relative_to(tests)}: {found.group()}"
        for path in tests.rglob("*.py")
        for found in re.finditer(r"""(?:setattr|patch\.object)\([^\n]*, ["']_\w+["'].*""", path.read_text())
    ]
    assert wrong == []


def test_names_of_tests_can_be_read_at_once():
    names = [
        found.group(1)
        for path in UNIT_TESTS.parent.rglob("test_*.py")
        for found in re.finditer(r"^ *def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert [name for name in names if len(name) > CHARACTERS_PER_TEST_NAME] == []


def test_no_class_hides_in_an_init():
    wrong = [
        f"{name_of(path)}:{node.lineno} {node.name}"
        for path in modules()
        if path.name == "__init__.py"
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef)
    ]
    assert wrong == []


def test_every_hudi_key_in_the_code_is_one_that_we_know():
    wrong = [
        f"{name_of(path)}:{node.lineno} {key}"
        for path in modules()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for key in re.findall(r"\bhoodie\.[\w.]*\w", node.value)
        if key not in FILE_NAMES and not _is_known(key)
    ]
    assert wrong == []


def _is_known(key: str) -> bool:
    """Whether a text is a key, or begins a family of keys as `hoodie.record.merge.property` does."""
    if key in OPTIONS or key in PROPERTIES or any(unsupported_area(name) for name in (key, f"{key}.x", f"_.{key}")):
        return True
    if is_refusable(key) or is_refusable(f"{key}.x"):
        return True
    return any(known.startswith(f"{key}.") for known in (*OPTIONS, *PROPERTIES))


def test_every_honoured_option_is_read_somewhere():
    outside = [tree_of(path) for path in modules() if room_of(path) != "config"]
    texts = {node.value for tree in outside for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    families = tuple(text for text in texts if isinstance(text, str) and re.fullmatch(r"hoodie(\.\w+){2,}\.", text))
    read = {node.attr for path in modules() for node in ast.walk(tree_of(path)) if isinstance(node, ast.Attribute)}
    dead = [
        declared.key
        for section in SECTIONS
        for name, declared in options_of(section.group)
        if name not in read | ONLY_CHECKED and declared.key not in texts and not declared.key.startswith(families)
    ]
    assert dead == []


def _compares_table_versions(node: ast.Compare) -> bool:
    """Whether something called version is compared with the number of a table version, or two such numbers."""
    sides = [node.left, *node.comparators]
    names = [ast.unparse(side) for side in sides]
    numbers = {part.value for side in sides for part in ast.walk(side) if isinstance(part, ast.Constant)}
    is_version = any(re.search(r"version(?:\.number|_number)?$", name) for name in names)
    return is_version and (bool(numbers & {6, 8, 9}) or any(name.endswith("version.number") for name in names))


def test_table_versions_are_compared_only_where_they_are_described():
    wrong = [
        f"{name_of(path)}:{node.lineno} {ast.unparse(node)}"
        for path in modules()
        if name_of(path) != "format/timeline/table_version.py" and room_of(path) != "testing"
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Compare) and _compares_table_versions(node)
    ]
    assert wrong == []


# Docstrings, comments and messages follow the rules of CONTRIBUTING.md for words.
RIDDLES = re.compile(
    r"\b(?:[r]eal (?:Hudi|writers)|[n]obody|[a]nybody|[t]aken back|[o]ut of use|[l]ooked at)\b", re.IGNORECASE
)
UNREACHABLE = re.compile(r"\b(?:[m]ission row|[t]rap \d|DESIGN D\d|flow F\d|[d]ossier|S\d-\d\d|Mission:)|Source: `")
DOCUMENT = re.compile(r"(?<![\w./:-])[\w./-]+\.md\b")
FIRST_WORDS_OF_RIDDLES = {
    "By",
    "From",
    "How",
    "Of",
    "That",
    "To",
    "What",
    "When",
    "Where",
    "Whether",
    "Which",
    "Who",
    "Why",
}
SENTENCES_PER_PARAGRAPH = 6


@functools.cache
def comments_of(path: Path) -> tuple[tuple[int, str], ...]:
    with path.open("rb") as source:
        tokens = tokenize.tokenize(source.readline)
        return tuple((token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT)


@functools.cache
def words_of(path: Path) -> tuple[tuple[int, str], ...]:
    """The texts and comments of a module, with their lines."""
    texts = (
        (node.lineno, node.value)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    return (*texts, *comments_of(path))


@pytest.mark.parametrize("pattern", [RIDDLES, UNREACHABLE], ids=["riddles", "unreachable references"])
def test_no_text_of_a_module_contains(pattern):
    wrong = [
        f"{name_of(path)}:{line} {found.group()}"
        for path in modules()
        for line, text in words_of(path)
        for found in pattern.finditer(text)
    ]
    assert wrong == []


def test_loop_variable_is_named_after_the_thing():
    loops = (
        (path, target)
        for path in modules()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.For | ast.comprehension)
        for target in ast.walk(node.target)
    )
    names = [(path, target) for path, target in loops if isinstance(target, ast.Name)]
    assert len(names) > 1000
    assert [f"{name_of(path)}:{name.lineno}" for path, name in names if name.id in ("one", "each")] == []


def test_module_docstring_begins_with_its_subject():
    wrong = []
    for path in modules():
        docstring = ast.get_docstring(tree_of(path)) or ""
        paragraphs = [part for part in docstring.split("\n\n") if not part.startswith((" ", "-", "http"))]
        if docstring.split(maxsplit=1)[0] in FIRST_WORDS_OF_RIDDLES:
            wrong.append(f"{name_of(path)}: {docstring.splitlines()[0]}")
        wrong += [
            f"{name_of(path)}: {part[:40]}" for part in paragraphs if len(part.split(". ")) > SENTENCES_PER_PARAGRAPH
        ]
    assert wrong == []


@functools.cache
def programs() -> Mapping[Path, str]:
    """The modules of the package, and every other program of the repository, with what is in them."""
    others = (path for folder in ("tests", "tools", "examples", "benchmarks") for path in (ROOT / folder).rglob("*.py"))
    return {path: path.read_text(encoding="utf-8") for path in (*modules(), *sorted(others))}


def programs_with(pattern: re.Pattern[str]) -> tuple[Path, ...]:
    """The programs that match anywhere: to take all of them apart costs twenty seconds."""
    return tuple(path for path, text in programs().items() if pattern.search(text))


@functools.cache
def prose_of(path: Path) -> tuple[tuple[int, str], ...]:
    """The docstrings and comments of a program; of a module of the package, its other texts, too."""
    if path.is_relative_to(SOURCE):
        return words_of(path)
    docstrings = (
        (node.lineno, node.value.value)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )
    return (*docstrings, *comments_of(path))


def test_text_of_a_program_refers_to_no_list_outside_of_the_repository():
    wrong = [
        f"{path.relative_to(ROOT)}:{line} {found.group()}"
        for path in programs_with(UNREACHABLE)
        for line, text in prose_of(path)
        for found in UNREACHABLE.finditer(text)
    ]
    assert wrong == []


def test_document_that_a_text_names_is_in_the_repository():
    wrong = [
        f"{path.relative_to(ROOT)}:{line} {named}"
        for path in programs_with(DOCUMENT)
        for line, text in prose_of(path)
        for named in DOCUMENT.findall(re.sub(r"https?://\S+", "", text))
        if not (ROOT / named).is_file() and not (ROOT / "docs" / named).is_file()
    ]
    assert wrong == []


def test_module_that_a_docstring_names_exists():
    wrong = [
        f"{name_of(path)}:{line} {named}"
        for path in modules()
        for line, text in words_of(path)
        for named in re.findall(r"`(pyhudi(?:\.\w+)+)`", text)
        if not _is_module_or_member(named.split(".")[1:])
    ]
    assert wrong == []


def _is_module_or_member(parts: list[str]) -> bool:
    module = SOURCE.joinpath(*parts)
    if module.is_dir() or module.with_suffix(".py").is_file():
        return True
    above = SOURCE.joinpath(*parts[:-1]).with_suffix(".py")
    return above.is_file() and re.search(rf"\b{parts[-1]}\b", above.read_text(encoding="utf-8")) is not None


def test_error_message_begins_in_lower_case_and_has_no_full_stop():
    wrong = [
        f"{name_of(path)}:{node.lineno} {message}"
        for path in modules()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith("Error")
        for message in _message_of(node)
        if re.match(r"(?!Spark )[A-Z][a-z]+ ", message) or message.endswith(".")  # a name keeps its capital letter
    ]
    assert wrong == []


def _message_of(call: ast.Call) -> list[str]:
    """The message of an error, with `{}` for its values; none if it is not a text in the code."""
    if not call.args or not isinstance(call.args[0], (ast.Constant, ast.JoinedStr)):
        return []
    parts = call.args[0].values if isinstance(call.args[0], ast.JoinedStr) else [call.args[0]]
    return ["".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)]


@functools.cache
def texts_of_the_repository() -> tuple[tuple[str, str], ...]:
    """Name and text of every file that is, or could be, committed."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("this is no git working tree")
    found = []
    for name in listed.stdout.decode().split("\0"):
        path = ROOT / name
        if name and path.is_file():
            data = path.read_bytes()
            if b"\0" not in data[:8192]:
                found.append((name, data.decode("utf-8", errors="replace")))
    return tuple(found)


# Written with character classes, so that this file does not contain what it looks for.
FORBIDDEN = {
    "path of a machine": re.compile(r"(?<![\w.])/(?:[w]ork|[r]oot)/"),
    "host of a package registry": re.compile(
        r"pypi[.]org|files[.]pythonhosted|repo1?[.]maven|registry[.]npmjs|proxy[.]golang|crates[.]io"
    ),
    "unfinished work": re.compile(r"\b(?:[T]ODO|[F]IXME|[X]XX)\b"),
}


@pytest.mark.parametrize("kind", FORBIDDEN)
def test_no_file_of_the_repository_contains(kind):
    wrong = [
        f"{name}:{text.count(chr(10), 0, found.start()) + 1} {found.group()}"
        for name, text in texts_of_the_repository()
        for found in FORBIDDEN[kind].finditer(text)
    ]
    assert wrong == []
