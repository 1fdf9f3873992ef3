"""Chromium without a window, driven through two pipes by its own protocol (the Chrome DevTools Protocol)."""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = os.environ.get("OPMAP_CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None
)

PATIENCE = 60.0
"""How long an answer may take, in seconds. It is far more than any needs."""


def missing() -> str | None:
    """Returns why no page can be opened here; None if it can."""
    if sys.platform == "win32":
        return "Chromium is driven through inherited pipes, which Windows does not have"
    return None if CHROMIUM else "needs Chromium (Debian: apt-get install chromium), or its path in OPMAP_CHROMIUM"


class Page:
    """A page of a browser. `problems` are the errors that its console has shown, and what it tried to load."""

    def __init__(self, write: int, read: int):
        self._write, self._read, self._ids = write, read, itertools.count(1)
        self._buffer, self._session = b"", None
        self.problems: list[str] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Sends a command, and returns its result."""
        number = next(self._ids)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        return self._until(lambda given: given.get("id") == number)

    def _until(self, wanted: Any) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE
        while True:
            while b"\0" not in self._buffer:
                assert select.select([self._read], [], [], max(0, end - time.monotonic()))[0], (
                    "Chromium gives no answer"
                )
                part = os.read(self._read, 1 << 20)
                assert part, "Chromium has ended"
                self._buffer += part
            line, _, self._buffer = self._buffer.partition(b"\0")
            given = json.loads(line)
            self._notice(given)
            if wanted(given):
                assert "error" not in given, given["error"]
                return given.get("result") or {}

    def _notice(self, given: dict[str, Any]) -> None:
        method, parameters = given.get("method"), given.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(str(parameters["exceptionDetails"].get("exception", {}).get("description")))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
            self.problems.append(str(parameters["args"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.problems.append(parameters["entry"]["text"])
        elif method == "Page.javascriptDialogOpening":
            self.problems.append(f"a dialog: {parameters['message']}")
            os.write(
                self._write,
                b'{"id":0,"method":"Page.handleJavaScriptDialog","params":{"accept":true},"sessionId":"%s"}\0'
                % str(self._session).encode(),
            )
        elif method == "Network.requestWillBeSent" and not parameters["request"]["url"].startswith(("file:", "data:")):
            self.problems.append(f"a request: {parameters['request']['url']}")

    def open(self, file: Path) -> None:
        """Opens a file, and returns when it is loaded."""
        self.ask("Page.navigate", url=file.resolve().as_uri())
        self._until(lambda given: given.get("method") == "Page.loadEventFired")

    def value(self, expression: str) -> Any:
        """Returns the value of a JavaScript expression; of a promise, what it gives."""
        found = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def size(self, width: int, height: int, *, mobile: bool = False) -> None:
        """Gives the page a size, in pixels of CSS."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def colours(self, scheme: str) -> None:
        """Chooses `light` or `dark`."""
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, *, whole: bool = False) -> bytes:
        """Returns a picture of the page as PNG."""
        return base64.b64decode(self.ask("Page.captureScreenshot", captureBeyondViewport=whole)["data"])

    def pdf(self) -> bytes:
        """Returns the printed page."""
        return base64.b64decode(self.ask("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"])


@contextmanager
def browser() -> Iterator[Page]:
    """Gives an empty page of a new browser."""
    assert CHROMIUM, missing()
    commands, answers = os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        script = 'exec 3<&"$1" 4>&"$2"; shift 2; exec "$@"'
        words = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        words += [f"--user-data-dir={profile}", "--remote-debugging-pipe"]
        process = subprocess.Popen(
            ["bash", "-c", script, "bash", str(commands[0]), str(answers[1]), *words],
            pass_fds=(commands[0], answers[1]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands[0])
        os.close(answers[1])
        try:
            yield Page(commands[1], answers[0])
        finally:
            os.close(commands[1])
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            os.close(answers[0])
