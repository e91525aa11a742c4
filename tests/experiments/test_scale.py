"""What the experiment on growth measures is there to be measured."""

from experiments.scale import growth


def test_a_loader_keeps_less_than_a_byte_per_document() -> None:
    growth.kept(1000)  # imports
    few, many = growth.kept(20_000), growth.kept(320_000)
    assert few < many < few + 300_000
