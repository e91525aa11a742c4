"""Record the browser page while it writes: docs/img/browser.gif.

    python -m experiments.browser.record FOLDER docs/img/browser.gif

`FOLDER` is what `reviser export MODEL --to web` wrote.
"""

from __future__ import annotations

import argparse
import base64
import functools
import http.server
import io
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

WIDTH, HEIGHT, SHOWN = 760, 720, 500
EXAMPLE = "One day, Lily found a big box."
SECONDS = 0.35
"""Time between two pictures, at least."""
LAST = 3000
"""Milliseconds of the last picture."""


class _Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Log nothing."""


def frames(folder: Path) -> list[tuple[float, Image.Image]]:
    """Return pictures of the page with their times, from a click to the finished text."""
    handler = functools.partial(_Handler, directory=str(folder))
    found = []
    with (
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server,
        sync_playwright() as play,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = play.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(f"http://127.0.0.1:{server.server_port}/")
        page.wait_for_function("() => document.body.dataset.model")
        page.wait_for_timeout(500)
        session = page.context.new_cdp_session(page)

        def keep(event: dict[str, Any]) -> None:
            picture = Image.open(io.BytesIO(base64.b64decode(event["data"])))
            size = SHOWN, picture.height * SHOWN // picture.width
            resized = picture.convert("RGB").resize(size, Image.Resampling.LANCZOS)
            found.append((event["metadata"]["timestamp"], resized))
            session.send("Page.screencastFrameAck", {"sessionId": event["sessionId"]})

        session.on("Page.screencastFrame", keep)
        session.send("Page.startScreencast", {"format": "png"})
        page.get_by_role("button", name=EXAMPLE).click()
        page.wait_for_timeout(500)
        page.wait_for_function("() => !document.body.matches('.writing')")
        page.wait_for_timeout(500)
        browser.close()
        server.shutdown()
    return found


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description="Record the browser page while it writes.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("output", type=Path)
    given = parser.parse_args()
    found = frames(given.folder)
    kept = found[:1]
    for each in found[1:]:
        if each[0] - kept[-1][0] >= SECONDS or each is found[-1]:
            kept.append(each)
    pictures = [each.quantize(24, dither=Image.Dither.NONE) for _, each in kept]
    times = [round(1000 * (b - a)) for (a, _), (b, _) in pairwise(kept)]
    pictures[0].save(
        given.output, save_all=True, append_images=pictures[1:], duration=[*times, LAST], loop=0
    )


if __name__ == "__main__":
    main()
