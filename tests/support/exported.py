"""The shipped story model as a static page, exported once for all tests, and a host for it."""

from __future__ import annotations

import functools
import http.server
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from support import trained
from support.browsers import missing
from support.paths import ROOT

MODEL = ROOT / "models/stories-revise"
ASSETS = ROOT / "src/reviser/export/assets"


def runtime() -> Path:
    """Return the folder of the npm package onnxruntime-web, or skip the test."""
    folder = Path(os.environ.get("REVISER_ORT", ROOT / ".cache/ort/package"))
    if not folder.is_dir():
        missing("onnxruntime-web is missing: run `just install-ort`, or set REVISER_ORT.")
    return folder


def site() -> Path:
    """Return the folder of the page."""
    for package in ("onnx", "onnxscript", "onnxruntime"):
        try:
            __import__(package)
        except ImportError:
            missing(f"{package} is not installed: run `just install`.")
    from reviser.export.site import RUNTIME_VERSION, export_site
    from reviser.player import playground

    ort = runtime()
    assets = [path.read_text("utf-8") for path in sorted(ASSETS.iterdir())]
    assets += [playground.html(), *playground.files().values()]
    page = (MODEL / "page.json").read_text("utf-8")
    return trained.folder(
        "page",
        [assets, page, RUNTIME_VERSION],
        lambda folder: export_site(MODEL, folder, runtime=ort),
    )


class _Handler(http.server.SimpleHTTPRequestHandler):
    extensions_map: ClassVar[dict[str, str]] = {
        **http.server.SimpleHTTPRequestHandler.extensions_map,
        ".mjs": "text/javascript",
        ".wasm": "application/wasm",
    }

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@contextmanager
def hosted(folder: Path) -> Iterator[str]:
    """Serve a folder as a plain static host does; yields its address."""
    handler = functools.partial(_Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()
