"""`TableHandle`: what `HudiTable` and its nouns share, which is the opened table, the options and the engine."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from pyhudi.api.arguments import HudiOptions, known_options
from pyhudi.config.table_config import TableConfig
from pyhudi.engine.local import LocalEngine
from pyhudi.engine.protocol import Engine
from pyhudi.environment import SYSTEM, Environment
from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.storage.metered import Meter, counted_here
from pyhudi.storage.open import open_spec
from pyhudi.storage.options import select_storage_options
from pyhudi.storage.protocol import Storage, StorageSpec
from pyhudi.table.state import TableState
from pyhudi.table.timeline import Timeline

if TYPE_CHECKING:
    from pyhudi.engine.progress import OnProgress
    from pyhudi.merge.rules import Merger
    from pyhudi.services.frame.service import ServiceCall


_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


@dataclass(eq=False)
class TableHandle:
    """An opened table, and how to work on it. A `HudiTable` and its nouns share one.

    `loaded` is the table as it was last loaded. `options` are those that the table was opened with: they hold for all
    its reads and writes, and may contain credentials of the store. `engine` runs the tasks of table services and of
    writes whose rows it accepts.
    """

    loaded: TableState
    options: Mapping[str, str] = field(repr=False)
    engine: Engine = field(default_factory=LocalEngine)
    environment: Environment = SYSTEM
    mergers: tuple[Merger, ...] = ()
    _is_outdated: bool = field(default=False, init=False, repr=False)

    @property
    def state(self) -> TableState:
        """The table as it was opened or last refreshed, with all that was done through this handle since.

        Cost: nothing; after a change through this handle one listing of the timeline and one read, once.
        """
        if self._is_outdated:
            self.refresh()
        return self.loaded

    @property
    def storage(self) -> Storage:
        """The table's folder. Cost: nothing."""
        return self.loaded.storage

    def refresh(self) -> None:
        """Load the table as it is now. Cost: one listing of the timeline, one read."""
        self._is_outdated = (
            False  # before it is loaded: what another thread changes meanwhile is loaded by the next read
        )
        try:
            self.loaded = self.loaded.reload()
        except BaseException:
            self._is_outdated = True
            raise

    @contextmanager
    def changing(self) -> Iterator[None]:
        """While the table is changed through this handle: whoever reads it afterwards sees the change.

        The table is loaded by that read: a write that is followed by none costs nothing more, and a store that fails
        then does not make a completed write look like a failed one.
        """
        try:
            yield
        finally:
            self._is_outdated = True

    def options_of_call(self, given: HudiOptions | None, *, call: str) -> dict[str, str]:
        """The table's options, overridden by those of one call. Raises `ConfigError` for an option of the store."""
        of_call = known_options(given, call=call, defaults=self.options)
        for name in select_storage_options(of_call):
            if self.options.get(name) != of_call[name]:
                raise ConfigError(
                    f"{name} says how to reach the store, which this table has done: give it to "
                    "HudiTable.for_path(hudi_options=…)",
                    option=name,
                )
        return {**self.options, **of_call}

    def service_call(
        self, given: HudiOptions | None, *, call: str, on_progress: OnProgress | None = None
    ) -> ServiceCall:
        """What a table service works with; `on_progress` is told of its tasks.

        Raises `ConfigError` for an option that is not legal, and for Spark with `on_progress`.
        """
        from pyhudi.config.write_config import WriteConfig
        from pyhudi.services.frame.service import ServiceCall
        from pyhudi.transaction.settings import equipped, metered, transaction_settings

        config = WriteConfig.from_options(self.options_of_call(given, call=call))
        engine = self._reporting(on_progress)
        state = replace(self.state, storage=metered(self.state.storage, config))
        environment = equipped(self.environment, config, state.config.name, state.storage.uri)
        return ServiceCall(state, config, transaction_settings(config), engine, environment, self.mergers)

    def counting(self) -> tuple[TableHandle, Meter]:
        """This table for one read, and what counts the calls that the read makes to the store.

        Cost: that of `state`, which is not counted.
        """
        storage = counted_here(self.state.storage)
        return replace(self, loaded=self.state.through(storage)), storage.meter

    def _reporting(self, on_progress: OnProgress | None) -> Engine:
        if on_progress is None:
            return self.engine
        if not isinstance(self.engine, LocalEngine):
            raise ConfigError(
                "on_progress is for tables without a Spark session: Spark shows the progress of its tasks"
            )
        return replace(self.engine, on_progress=on_progress)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles as the table that reads through this handle see; with the options, and so the store's credentials.

        Raises `UnsupportedFeatureError` for a table that runs its services on a Spark session.
        """
        if not isinstance(self.engine, LocalEngine):
            raise UnsupportedFeatureError(
                "a table whose services run on a Spark session cannot be sent to another process: open it there, with "
                "HudiTable.for_path(path, hudi_options=…)",
                path=self.storage.uri,
            )
        state = (self.state.storage.spec, self.state.config, self.state.timeline)
        return _unpickled, (state, dict(self.options), self.engine, self.environment, self.mergers)


class _Noun(Protocol):
    @property
    def _handle(self) -> TableHandle: ...


_AnyNoun = TypeVar("_AnyNoun", bound=_Noun)


def changes_table(
    method: Callable[Concatenate[_AnyNoun, _Arguments], _Result],
) -> Callable[Concatenate[_AnyNoun, _Arguments], _Result]:
    """A method of a noun by which the table changes: reads through the noun's handle see the change afterwards."""

    @functools.wraps(method)
    def changing(noun: _AnyNoun, /, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        with noun._handle.changing():
            return method(noun, *args, **kwargs)

    return changing


def _unpickled(state: tuple[StorageSpec, TableConfig, Timeline], *others: Any) -> TableHandle:
    spec, config, timeline = state
    return TableHandle(TableState(open_spec(spec), config, timeline), *others)
