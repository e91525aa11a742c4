"""The export command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from reviser.cli.options import folder_option, model_argument
from reviser.cli.output import announce_if_slow, needs_extra, quiet_libraries


@click.command()
@model_argument
@click.option("--to", "target", required=True, type=click.Choice(["onnx", "web"]),
              help="What to write: the model as ONNX, or a static page that runs it.")  # fmt: skip
@folder_option("-o", "--output", help="Folder to write.")
@click.option("--weights", default="bfloat16", show_default=True,
              type=click.Choice(["float32", "bfloat16", "int8"]),
              help="How to store the weights; the model computes in float32.")  # fmt: skip
@click.option("--ort", "runtime", metavar="FOLDER", default="node_modules/onnxruntime-web",
              show_default=True, type=click.Path(file_okay=False, path_type=Path),
              help="Folder of the npm package onnxruntime-web, for --to web.")  # fmt: skip
def export(model: str, target: str, output: Path, weights: Any, runtime: Path) -> None:
    """Export a model to ONNX, or to a page for the browser.

    MODEL is a folder or a hub name. The page is a folder of files for any static host. It runs the
    model in the browser, without a server and without requests to other hosts.
    """
    quiet_libraries(model)
    with announce_if_slow("Exporting; this takes about half a minute."), needs_extra("web"):
        if target == "onnx":
            from reviser.export.onnx import export_onnx

            export_onnx(model, output, weights=weights)
        else:
            from reviser.export.site import export_site

            export_site(model, output, runtime=runtime, weights=weights)
    size = sum(path.stat().st_size for path in output.rglob("*") if path.is_file())
    click.echo(f"{output}: {size / 1e6:.1f} MB")
