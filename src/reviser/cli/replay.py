"""The replay command."""

from __future__ import annotations

from pathlib import Path

import click

from reviser.cli.options import InputPath
from reviser.errors import plural
from reviser.files import write_whole


@click.command()
@click.argument("rollouts", nargs=-1, required=True, metavar="ROLLOUTS.jsonl...",
                type=InputPath(dir_okay=False))  # fmt: skip
@click.option("-o", "--output", required=True, metavar="PAGE.html",
              type=click.Path(dir_okay=False, path_type=Path), help="Page to write.")  # fmt: skip
@click.option("-m", "--model", metavar="MODEL",
              help="Folder or hub name of the model, if it is no longer where the rollouts"
                   " say.")  # fmt: skip
@click.option(
    "--limit", type=click.IntRange(1), help="Maximum number of rollouts to take from each file."
)
@click.option("--title", default="Rollouts", show_default=True, help="Title of the page.")
def replay(
    rollouts: tuple[Path, ...], output: Path, model: str | None, limit: int | None, title: str
) -> None:
    """Make a page that replays texts edit by edit.

    ROLLOUTS are files that `reviser generate` wrote, with --output or with --json. The page is one
    file that needs no network. Lines with an error are left out and counted.
    """
    from reviser.player import film, page

    films, failed = film.read(rollouts, model=model, limit=limit)
    write_whole(output, page.to_html(films, title=title))
    click.echo(f"{output}: {plural(len(films), 'rollout')}")
    if failed:
        click.echo(f"left out, an error instead of a rollout: {failed:,}")
