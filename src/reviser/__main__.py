"""`python -m reviser`, which torchrun and accelerate launch can start."""

from reviser.cli import run

run()
