"""Chromium without a window, driven through a pipe: tests that run at the same time share no ports."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
_FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run")
_KEYS = {"Tab": 9, "Enter": 13, "ArrowRight": 39, "ArrowLeft": 37}


@dataclass(frozen=True)
class Page:
    """A page of the browser."""

    _to: BinaryIO
    _from: BinaryIO
    _session: str
    _numbers: Iterator[int]

    def call(self, method: str, **values: Any) -> dict[str, Any]:
        """Call a method of the protocol of Chromium's tools for developers."""
        return _call(self._to, self._from, next(self._numbers), method, values, self._session)

    def value(self, expression: str) -> Any:
        """The value of an expression of JavaScript, as JSON has it."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def open(self, url: str) -> None:
        """Go to a page, and wait until it is there."""
        self.call("Page.navigate", url=url)
        while self.value("location.href + ' ' + document.readyState") != f"{url} complete":
            pass

    def show(self, width: int, *, is_dark: bool = False) -> None:
        """Give the window this width, and the colours that the user prefers."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def press(self, key: str) -> None:
        """Press a key, and let it go."""
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=_KEYS[key], **text)

    def picture(self, file: Path) -> None:
        """Write the whole page into a PNG file."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def browser_page(profile: Path) -> Iterator[Page]:
    """An empty page of a browser that ends with the block."""
    assert CHROMIUM is not None
    (its_in, to_it), (from_it, its_out) = os.pipe(), os.pipe()
    # The shell gives the pipes the numbers 3 and 4, at which Chromium looks for them.
    command = f'exec "$@" 3<&{its_in} 4>&{its_out}'
    process = subprocess.Popen(
        ["bash", "-c", command, "chromium", CHROMIUM, *_FLAGS, f"--user-data-dir={profile}", "about:blank"],
        pass_fds=(its_in, its_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(its_in)
    os.close(its_out)
    numbers = count(1)
    with process, os.fdopen(to_it, "wb", buffering=0) as to, os.fdopen(from_it, "rb") as answers:
        try:
            target = _call(to, answers, next(numbers), "Target.createTarget", {"url": "about:blank"})
            attached = {"targetId": target["targetId"], "flatten": True}
            session = _call(to, answers, next(numbers), "Target.attachToTarget", attached)["sessionId"]
            yield Page(to, answers, session, numbers)
            _call(to, answers, next(numbers), "Browser.close", {})
        except BaseException:
            process.kill()
            raise


def _call(
    to: BinaryIO, answers: BinaryIO, number: int, method: str, values: dict[str, Any], session: str | None = None
) -> dict[str, Any]:
    message = {"id": number, "method": method, "params": values} | ({"sessionId": session} if session else {})
    to.write(json.dumps(message).encode() + b"\0")
    while True:
        text = bytearray()
        while (byte := answers.read(1)) not in (b"\0", b""):
            text += byte
        assert byte, "the browser has ended"
        answer: dict[str, Any] = json.loads(text)
        if answer.get("id") == number:
            assert "error" not in answer, (method, answer)
            result: dict[str, Any] = answer["result"]
            return result
