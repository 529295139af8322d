"""The tables of `crash_images` are those that processes leave which die at each effect."""

from __future__ import annotations

import pytest
from tests.support.crashes import COW, MOR, copied, crash_images, crashed, effects_of, opened, prepared, rows
from tests.support.table_builder import TableBuilder

import pyhudi
from pyhudi.storage.protocol import Storage


def upsert(table: pyhudi.HudiTable) -> object:
    return table.upsert(rows((1, "oslo", 3, "c"), (7, "bern", 2, "b")))


def paths(storage: Storage) -> list[str]:
    return [info.path for info in storage.list_recursive("")]


@pytest.mark.parametrize("kind", [COW[2], MOR[0]], ids=str)
def test_images_of_one_run_are_what_a_process_leaves_that_dies_at_each_effect(kind: TableBuilder) -> None:
    given = prepared(kind)
    images = {int(where.split()[2]): image for where, image in crash_images(given, upsert) if "before" in where}

    shapes = []
    for number in range(1, len(effects_of(given, upsert)) + 1):
        left = crashed(given, upsert, number)
        assert left is not None
        image = images[max(taken for taken in images if taken <= number)]
        shapes.append(len(paths(image)))
        assert _shape(image) == _shape(left), number

    assert len(images) < len(shapes)
    assert len({*shapes}) > 5


def _shape(storage: Storage) -> list[tuple[str, int]]:
    """The folders of all files, and the lengths of their paths: names are random in part."""
    return sorted((path.rpartition("/")[0], len(path)) for path in paths(storage))


def test_image_stays_as_it_was_when_the_action_goes_on_and_has_its_uri() -> None:
    given = copied(prepared(COW[2]))
    images = [image for _, image in crash_images(given, upsert)]

    before = [paths(image) for image in images]
    opened(images[-1]).upsert(rows((9, "rome", 1, "a")))

    assert [paths(image) for image in images][:-1] == before[:-1]
    assert len({image.uri for image in images}) == 1
