"""A real Chromium, spoken to over its own pipe (the DevTools protocol): no driver, no socket."""

from __future__ import annotations

import json
import os
import select
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from balancer.clock import seconds, wall_us

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_TEXTS_IN_THE_WAY = """[...document.querySelectorAll("svg")].flatMap((svg) => {
  const frame = svg.getBoundingClientRect();
  if (!frame.width) return [];
  const texts = [...svg.querySelectorAll("text")].filter((each) => each.textContent.trim()).map((each) => {
    // Letters fill three quarters of the height of their box, and of its width where they are read from below.
    const { left, top, right, bottom } = each.getBoundingClientRect(), size = Math.min(right - left, bottom - top) / 8;
    return { name: each.textContent, left: left + size, top: top + size, right: right - size, bottom: bottom - size };
  });
  const out = texts.filter((one) =>
    one.left < frame.left || one.top < frame.top || one.right > frame.right || one.bottom > frame.bottom);
  const meet = (one, other) =>
    one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom;
  const both = texts.flatMap((one, place) =>
    texts.slice(place + 1).filter((other) => meet(one, other)).map((other) => [one, other]));
  const of = svg.getAttribute("aria-label");
  return [...out.map((one) => `${of}: "${one.name}" leaves the picture`),
    ...both.map(([one, other]) => `${of}: "${one.name}" overlaps "${other.name}"`)];
})"""


class PageError(Exception):
    """The page or the browser could not do it."""


class Page:
    """One page. `console`: what it or the browser complained about."""

    def __init__(self, to: int, back: int) -> None:
        self._to = to
        self._back = back
        self._unread = b""
        self._last = 0
        self._session: str | None = None
        self.console: list[str] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._last += 1
        call: dict[str, Any] = {"id": self._last, "method": method, "params": params}
        if self._session is not None:
            call["sessionId"] = self._session
        os.write(self._to, json.dumps(call).encode() + b"\0")
        while True:
            message = self._next(60)
            if message.get("id") == self._last:
                if "error" in message:
                    raise PageError(message["error"])
                result: dict[str, Any] = message["result"]
                return result

    def _next(self, limit_s: float) -> dict[str, Any]:
        until_us = wall_us() + round(limit_s * 1_000_000)
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._back], [], [], max(0, seconds(until_us - wall_us())))
            assert ready, "the browser does not answer"
            read = os.read(self._back, 1 << 20)
            assert read, "the browser has ended"
            self._unread += read
        text, _, self._unread = self._unread.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._note(message)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        params = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.console.append(str(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning"):
                self.console.append(str(params["args"]))
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                self.console.append(str(params["entry"]["text"]) + " " + str(params["entry"].get("url")))

    def open(self, url: str) -> None:
        self.ask("Page.navigate", url=url)

    def evaluate(self, script: str) -> Any:
        result = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise PageError(result["exceptionDetails"])
        return result["result"].get("value")

    def wait_for(self, script: str, limit_s: float = 60.0) -> Any:
        """Until the expression is true in the page. While one page takes the place of another nothing is."""
        until_us = wall_us() + round(limit_s * 1_000_000)
        while not (found := self._evaluated(script)):
            assert wall_us() < until_us, (
                f"{script} did not come true: {self._evaluated('document.body.innerText')}"
            )
            select.select([self._back], [], [], 0.05)
        return found

    def _evaluated(self, script: str) -> Any:
        try:
            return self.evaluate(script)
        except PageError:
            return None

    def type(self, text: str) -> None:
        self.ask("Input.insertText", text=text)

    def press(self, key: str) -> None:
        text = "\r" if key == "Enter" else key if len(key) == 1 else ""
        self.ask("Input.dispatchKeyEvent", type="keyDown", key=key, text=text)
        self.ask("Input.dispatchKeyEvent", type="keyUp", key=key)

    def resize(self, width: int, height: int) -> None:
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def dark(self, *, is_dark: bool = True) -> None:
        value = "dark" if is_dark else "light"
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": value}])

    def barriers(self, axe: Path) -> list[str]:
        """What axe-core (its script is the file `axe`) finds on the page as it is now: rule and first element."""
        self.evaluate(axe.read_text(encoding="utf-8") + ";0")
        found = "violations.map((each) => `${each.id}: ${each.nodes[0].html.slice(0, 200)}`)"
        result: list[str] = self.evaluate(f"axe.run().then((result) => result.{found})")
        return result

    def texts_in_the_way(self) -> list[str]:
        """Texts of the pictures of the page that overlap each other or leave their picture."""
        found: list[str] = self.evaluate(_TEXTS_IN_THE_WAY)
        return found


@contextmanager
def browser(folder: Path) -> Iterator[Page]:
    """A page of a browser that keeps nothing."""
    to_read, to_write = os.pipe()
    back_read, back_write = os.pipe()
    # Chromium reads descriptor 3 and writes descriptor 4.
    script = f'exec 3<&{to_read} 4>&{back_write}; exec "$@"'
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--remote-debugging-pipe",
    ]
    options += ["--disable-background-networking", "--no-first-run", f"--user-data-dir={folder / 'profile'}"]
    process = subprocess.Popen(
        ["bash", "-c", script, "bash", "chromium", *options],
        pass_fds=(to_read, back_write),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_read)
    os.close(back_write)
    try:
        page = Page(to_write, back_read)
        yield page
        page._session = None
        page.ask("Browser.close")
    finally:
        os.close(to_write)
        os.close(back_read)
        process.terminate()
        process.wait(30)
