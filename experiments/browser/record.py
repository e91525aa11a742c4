"""Record the playground: docs/img/browser.gif and docs/img/playground.gif.

    python -m experiments.browser.record FOLDER docs/img/browser.gif
    python -m experiments.browser.record http://127.0.0.1:8000 docs/img/playground.gif

`FOLDER` is what `reviser export MODEL --to web` wrote; the page writes a story. An address is that
of `reviser serve`; the page proofreads its example.
"""

from __future__ import annotations

import argparse
import base64
import functools
import http.server
import io
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

EXAMPLE = "One day, Lily found a big box."
"""The beginning of the example to write from."""
SECONDS = 0.35
"""Time between two pictures, at least."""
LONGEST = 1200
"""Milliseconds of a picture, at most: nobody wants to watch a page that waits."""
LAST = 3000
"""Milliseconds of the last picture."""
COLOURS = 255
"""Colours of a picture; with fewer, the few coloured points are lost among the greys."""


class _Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def hosted(folder: Path) -> Iterator[str]:
    """Serve a folder; yield its address."""
    handler = functools.partial(_Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def write(page: Any) -> None:
    """Let the model write a story."""
    page.get_by_role("button", name=EXAMPLE).click()
    page.wait_for_timeout(500)
    page.wait_for_function("() => !document.body.matches('.writing')")
    page.wait_for_timeout(2500)


def proofread(page: Any) -> None:
    """Let the model check the letter of the example, and decide on its suggestions."""
    page.wait_for_timeout(500)
    page.locator("#examples button").first.click()
    page.wait_for_selector("body.writing.reviewed")  # what is sure
    page.wait_for_timeout(700)
    page.wait_for_selector("body.reviewed:not(.writing)")
    page.wait_for_timeout(1200)
    for button in ("accept", "accept"):
        chosen = page.locator(f"#cards li .{button}").first
        chosen.hover()
        page.wait_for_timeout(700)
        chosen.click()
        page.wait_for_timeout(500)
    page.click("#accept-all")
    page.wait_for_timeout(1000)


def frames(
    url: str, act: Callable[[Any], None], *, width: int, height: int, shown: int
) -> list[tuple[float, Image.Image]]:
    """Return pictures of the page with their times, while something is done on it."""
    found = []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        window: Any = {"width": width, "height": height}
        page = browser.new_page(viewport=window, reduced_motion="reduce")
        page.set_default_timeout(120_000)
        page.goto(url)
        page.wait_for_selector("body[data-page=open][data-model=ready]:not(.writing)")
        page.wait_for_timeout(500)
        session = page.context.new_cdp_session(page)

        def keep(event: dict[str, Any]) -> None:
            picture = Image.open(io.BytesIO(base64.b64decode(event["data"])))
            small = shown, picture.height * shown // picture.width
            resized = picture.convert("RGB").resize(small, Image.Resampling.LANCZOS)
            found.append((event["metadata"]["timestamp"], resized))
            if not page.is_closed():
                session.send("Page.screencastFrameAck", {"sessionId": event["sessionId"]})

        session.on("Page.screencastFrame", keep)
        session.send("Page.startScreencast", {"format": "png"})
        act(page)
        session.send("Page.stopScreencast")
        count = -1
        while count < len(found):  # pictures are on their way
            count = len(found)
            page.wait_for_timeout(1000)
        browser.close()
    return found


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description="Record the playground.")
    parser.add_argument("source", help="folder of an exported page, or address of a server")
    parser.add_argument("output", type=Path)
    given = parser.parse_args()
    if given.source.startswith("http"):
        # With a mode in the address, the page does not check its example by itself.
        found = frames(
            f"{given.source}/#mode=proofread", proofread, width=1100, height=700, shown=740
        )
    else:
        with hosted(Path(given.source)) as url:
            found = frames(url, write, width=760, height=860, shown=500)
    kept = found[:1]
    for each in found[1:]:
        if each[0] - kept[-1][0] >= SECONDS or each is found[-1]:
            kept.append(each)
    # One palette for all, so that what stays the same is stored once.
    whole = Image.new("RGB", (kept[0][1].width, sum(each.height for _, each in kept)))
    for n, (_, picture) in enumerate(kept):
        whole.paste(picture, (0, n * picture.height))
    palette = whole.quantize(COLOURS, dither=Image.Dither.NONE)
    pictures = [each.quantize(palette=palette, dither=Image.Dither.NONE) for _, each in kept]
    times = [min(round(1000 * (b - a)), LONGEST) for (a, _), (b, _) in pairwise(kept)]
    pictures[0].save(
        given.output, save_all=True, append_images=pictures[1:], duration=[*times, LAST], loop=0
    )


if __name__ == "__main__":
    main()
