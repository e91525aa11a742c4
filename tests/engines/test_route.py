"""Routes in engines: their effect on logits, and their way to another process."""

import pytest
import torch

from reviser.core.actions import ActionVocab
from reviser.core.canvas import Canvas
from reviser.core.mask import Boundary
from reviser.engines import wire
from reviser.engines.base import DecodeConfig, Request
from reviser.engines.logits import LogitsMask
from reviser.errors import ConfigError

VOCAB = ActionVocab.build(6, max_move=4, marks=True, search=True)


def test_the_probability_of_stopping_goes_to_the_next_search() -> None:
    rows = Boundary(VOCAB, 2)
    for row, route in enumerate([[(), (1, 2)], [()]]):
        canvas = Canvas(VOCAB, [0, 1, 2], cursor=0)
        rows.reset(row, length=3, cursor=0, gaps=[(0, 3)], canvas=canvas, route=route)
    logits = torch.randn(2, VOCAB.size, generator=torch.Generator().manual_seed(0))
    found, mask = logits.clone(), LogitsMask(VOCAB)
    mask.apply(found, mask.plan(rows, [DecodeConfig()] * 2))
    assert VOCAB.find is not None
    both = logits[:, VOCAB.find].logaddexp(logits[:, VOCAB.stop])
    assert torch.isclose(found[0, VOCAB.find], both[0])
    assert found[0, VOCAB.stop] == -torch.inf
    assert torch.isclose(found[1, VOCAB.stop], both[1])
    assert found[1, VOCAB.find] == -torch.inf
    assert torch.equal(found[:, 0], logits[:, 0])  # inserts are as likely as before


def test_a_request_carries_its_route_to_another_process() -> None:
    vocab = VOCAB
    assert vocab.mark is not None
    assert vocab.back is not None
    history = (*vocab.prefix_actions([]), vocab.mark, 0, 1, 2, vocab.back)
    request = Request(history=history, length=3, cursor=0, gaps=((0, 3),), route=((), (0, 1), (2,)))
    sent = wire.write(request)
    assert wire.read(vocab, history, sent).route == request.route
    for wrong in ([], [5, 1], [-1], "x", [1.5], 3, [0, 1], {"a": 1}):
        with pytest.raises(ConfigError, match="reviser_route is"):
            wire.check({**sent, wire.ROUTE: wrong})
