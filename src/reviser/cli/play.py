"""The play command."""

from __future__ import annotations

from pathlib import Path

import click

from reviser.cli.options import InputPath
from reviser.cli.output import needs_extra
from reviser.errors import plural
from reviser.files import write_whole


@click.command()
@click.argument("rollouts", nargs=-1, required=True, metavar="ROLLOUTS.jsonl...",
                type=InputPath(dir_okay=False))  # fmt: skip
@click.option("-o", "--output", metavar="PAGE.html",
              type=click.Path(dir_okay=False, path_type=Path), help="Page to write.")  # fmt: skip
@click.option("-m", "--model", metavar="MODEL",
              help="Folder or hub name of the model, if it is no longer where the rollouts"
                   " say.")  # fmt: skip
@click.option(
    "--limit", type=click.IntRange(1), help="Maximum number of rollouts to take from each file."
)
@click.option("--title", default="Rollouts", show_default=True, help="Title of the page.")
@click.option("--gif", metavar="FILE.gif", type=click.Path(dir_okay=False, path_type=Path),
              help="GIF of one rollout to write.")  # fmt: skip
@click.option("--rollout", "number", default=1, show_default=True, type=click.IntRange(1),
              help="Number of the rollout for --gif.")  # fmt: skip
@click.option("--pace", default=12.0, show_default=True, type=click.FloatRange(0.1, 10_000),
              help="Actions per second, for --gif.")  # fmt: skip
@click.option("--width", default=640, show_default=True, type=click.IntRange(160, 4096),
              help="Width in pixels, for --gif.")  # fmt: skip
def play(
    rollouts: tuple[Path, ...], output: Path | None, model: str | None, limit: int | None,
    title: str, gif: Path | None, number: int, pace: float, width: int,
) -> None:  # fmt: skip
    """Make a page or GIF that plays texts edit by edit.

    ROLLOUTS are files that `reviser generate` wrote, with --output or with --json. The page is one
    file that needs no network. Lines with an error are left out and counted.
    """
    from reviser.player import film, page

    if output is None and gif is None:
        raise click.UsageError("Give -o for a page, or --gif for a GIF.")
    films, failed = film.read(rollouts, model=model, limit=limit)
    if output is not None:
        write_whole(output, page.to_html(films, title=title))
        click.echo(f"{output}: {plural(len(films), 'rollout')}")
    if gif is not None:
        with needs_extra("player"):
            from reviser.player.picture import write_gif
        if number > len(films):
            raise click.UsageError(f"--rollout is {number}; there are {len(films)}.")
        frames = write_gif(gif, films[number - 1], pace=pace, width=width)
        click.echo(f"{gif}: {plural(frames, 'frame')}")
    if failed:
        click.echo(f"left out, an error instead of a rollout: {failed:,}")
