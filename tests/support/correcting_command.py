"""The `reviser` command, whose every model is the one of `support.correcting`."""

from unittest import mock

from reviser.cli import main
from support import correcting

if __name__ == "__main__":
    with mock.patch("reviser.model.load", correcting.load):
        main(prog_name="reviser")
