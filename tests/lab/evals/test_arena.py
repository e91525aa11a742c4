"""Matches before judges of known bias, over real HTTP, through kills; nothing is asked twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random

import pytest

from reviser.errors import ConfigError, DataError, EngineError
from reviser.lab.evals import arena
from reviser.lab.evals.arena import Journal, Question, SamplePair
from reviser.lab.evals.judges import EndpointJudge, filled
from reviser.lab.evals.texts import Sample

from .judging_endpoint import Endpoint, serving, vowels


class ScriptedJudge:
    """Decides by a function, and remembers what it was asked."""

    def __init__(self, decide: Callable[[Question], str], name: str = "scripted") -> None:
        self.about = {"judge": name}
        self.asked: list[Question] = []
        self._decide = decide

    def replies(self, questions: Sequence[Question]) -> Iterator[tuple[Question, str]]:
        for question in questions:
            self.asked.append(question)
            yield question, self._decide(question)


def sample(system: str, n: int, continuation: str) -> Sample:
    return Sample(system=system, id=f"p{n}", prompt=f"Prompt {n}.", continuation=continuation)


def pairs_of(count: int, strength: float, seed: int = 0, seeds: int = 1) -> list[SamplePair]:
    """Pairs of which ours is better with probability `strength`, as its text says."""
    rng = Random(seed)
    pairs = []
    for n in range(count):
        for s in range(seeds):
            better = rng.random() < strength
            ours, theirs = ("good", "bad") if better else ("bad", "good")
            pairs.append(
                (sample("us", n, f"{ours} {n} {s}"), sample("them", n, f"{theirs} {n} {s} x"))
            )
    return pairs


def biased(rate: float, seed: int = 0) -> ScriptedJudge:
    """Says A without reading, so often; otherwise the truth."""
    rng = Random(seed)

    def decide(question: Question) -> str:
        if rng.random() < rate:
            return "[[A]]"
        return "[[A]]" if question.a.startswith("good") else "[[B]]"

    return ScriptedJudge(decide)


def test_a_fair_judge_finds_the_truth() -> None:
    for order in ("both", "random"):
        match = arena.play(pairs_of(400, 0.7), biased(0), order=order)
        truth = sum(ours.continuation.startswith("good") for ours, _ in pairs_of(400, 0.7)) / 400
        assert match.win_rate.value == pytest.approx(truth)
        assert match.win_rate.low < 0.7 < match.win_rate.high
        assert not match.is_biased
        assert match.systems == ("us", "them")
        assert match.order == order
        assert (match.ties, match.invalid) == (0, 0)
    assert match.wins + match.losses == 400
    assert match.consistent is None


@pytest.mark.parametrize("order", ["both", "random"])
def test_a_judge_that_prefers_a_side_is_found_out(order: arena.Order) -> None:
    pairs = pairs_of(600, 0.7, seed=3)
    match = arena.play(pairs, biased(0.4), order=order)
    # Four of ten verdicts say nothing; sides are even, so they pull the rate to one half.
    assert match.win_rate.low < 0.6 * 0.7 + 0.4 * 0.5 < match.win_rate.high
    assert match.is_biased
    assert match.shown_first is not None
    assert match.shown_first.low < 0.6 * 0.5 + 0.4 < match.shown_first.high
    # Without even sides the bias would be a win: always shown first, ours has 0.82.
    assert match.win_rate.high < 0.75


def test_a_rate_that_is_the_same_for_all_pairs_is_not_certain() -> None:
    match = arena.play(pairs_of(4, 0.5), biased(1))
    assert match.win_rate.value == 0.5
    assert match.win_rate.low < 0.2 < 0.8 < match.win_rate.high


def test_sides_are_counted_of_pairs_that_were_judged_in_both_orders() -> None:
    """A judge that is always right, but says nothing of most pairs when ours is shown second."""

    def decide(question: arena.Question) -> str:
        ours_first = question.a.startswith("good")
        quiet = not ours_first and int(question.a.split()[1]) > 3
        return "?" if quiet else "[[A]]" if ours_first else "[[B]]"

    match = arena.play(pairs_of(40, 1.0), ScriptedJudge(decide))
    assert (match.win_rate.value, match.win_rate.n) == (1.0, 4)
    assert match.invalid == 36
    assert match.shown_first is not None
    assert match.shown_first.value == 0.5
    assert not match.is_biased


def test_seeds_of_one_prompt_are_one_cluster() -> None:
    match = arena.play(pairs_of(20, 0.5, seeds=3), biased(0))
    assert match.win_rate.n == 20
    assert match.wins + match.losses == 2 * 60


def test_random_sides_are_drawn_by_the_seed() -> None:
    pairs = pairs_of(200, 0.5)

    def sides(seed: int) -> list[bool]:
        return [each[0][1] for each in arena.questions_of(pairs, order="random", seed=seed)]

    assert sides(1) == sides(1) != sides(2)
    assert 70 < sum(sides(1)) < 130
    for (ours, theirs), [(question, swapped)] in zip(
        pairs, arena.questions_of(pairs, order="random"), strict=True
    ):
        shown = (theirs, ours) if swapped else (ours, theirs)
        assert (question.a, question.b) == tuple(each.continuation for each in shown)
        assert question.prompt == ours.prompt
    with pytest.raises(ConfigError, match="order is 'first'"):
        arena.questions_of(pairs, order="first")  # type: ignore[arg-type]


def test_ties_count_half_and_invalid_replies_for_nobody() -> None:
    said = {"0": "[[A]]", "1": "[[C]]", "2": "no idea"}

    def decide(question: Question) -> str:
        number = question.prompt.removeprefix("Prompt ").rstrip(".")
        if number == "0":  # ours wins in both orders
            return "[[A]]" if question.a.startswith("good") else "[[B]]"
        if number == "3":  # a verdict in one order only
            return "[[A]]" if question.a.startswith("good") else "?"
        return said[number]

    match = arena.play(pairs_of(4, 1), ScriptedJudge(decide))
    assert (match.wins, match.losses, match.ties, match.invalid) == (3, 0, 2, 3)
    assert match.win_rate.value == pytest.approx((1 + 0.5) / 2)
    assert match.win_rate.n == 2
    assert match.consistent is not None
    assert match.consistent.value == 1
    with pytest.raises(DataError, match="no verdict on any of 4 pairs"):
        arena.play(pairs_of(4, 1), ScriptedJudge(lambda _: "hm"))


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("[[A]]", "A"),
        (" [[b]].\n", "B"),
        ("[[ C ]]", "tie"),
        ("[[tie]]", "tie"),
        ("[[A]] seems good, yet [[B]]", "B"),
        ("A", "invalid"),
        ("[[AB]]", "invalid"),
        ("[A]", "invalid"),
        ("", "invalid"),
    ],
)
def test_the_last_mark_of_a_reply_decides(reply: str, verdict: str) -> None:
    assert arena.read_verdict(reply) == verdict


def test_samples_pair_by_prompt_the_first_with_the_first() -> None:
    ours = [sample("us", n, f"a{k}") for n in range(3) for k in (1, 2)]
    theirs = [sample("them", n, f"b{k}") for k in (1, 2) for n in range(3)]
    pairs = arena.pair_up(ours, theirs)
    assert [a for a, _ in pairs] == ours
    assert [(a.id, a.continuation[1:]) for a, _ in pairs] == [
        (b.id, b.continuation[1:]) for _, b in pairs
    ]
    with pytest.raises(DataError, match=r"0 of the 6 samples .* 1 of the 7 of the second"):
        arena.pair_up(ours, [*theirs, sample("them", 9, "b")])
    other = Sample(system="them", id="p0", prompt="Another.", continuation="b")
    with pytest.raises(DataError, match="'p0' is not the same text for us and them"):
        arena.pair_up(ours[:1], [other])


# -- the journal ----------------------------------------------------------------------------------


def test_what_is_in_the_journal_is_not_asked_again(tmp_path: Path) -> None:
    journal = tmp_path / "deep" / "journal.jsonl"
    pairs = pairs_of(30, 0.6)
    first, again, other = biased(0), biased(0), biased(0)
    other.about = {"judge": "other"}
    told: list[tuple[int, int]] = []
    whole = arena.play(pairs, first, journal=journal, progress=lambda *n: told.append(n))
    assert told == [(n, 60) for n in range(61)]
    assert len(first.asked) == 60
    assert arena.play(pairs, again, journal=journal) == whole
    assert again.asked == []
    arena.play(pairs, other, journal=journal)
    assert len(other.asked) == 60
    arena.play(pairs, again, journal=journal, order="random")  # one of the two orders
    assert again.asked == []


def test_a_journal_cut_anywhere_loses_one_reply_at_most(tmp_path: Path) -> None:
    pairs, path = pairs_of(2, 0.6), tmp_path / "journal.jsonl"
    whole = arena.play(pairs, biased(0), journal=path, order="random")
    content = path.read_bytes()
    for size in range(len(content) + 1):
        path.write_bytes(content[:size])
        judge = biased(0)
        assert arena.play(pairs, judge, journal=path, order="random") == whole
        kept = content[:size].count(b"\n") + (content[size : size + 1] == b"\n")
        assert len(judge.asked) == 2 - kept
        assert sorted(path.read_bytes().splitlines()) == sorted(content.splitlines())


def test_a_foreign_line_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b'{"judge": "x", "question": "y", "reply": "z"}\nmine\n')
    with pytest.raises(DataError, match="Line 2 of the journal"):
        arena.play(pairs_of(1, 1), biased(0), journal=path)
    assert path.read_bytes().endswith(b"mine\n")


def test_two_processes_do_not_share_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with (
        Journal(path, {}),
        pytest.raises(ConfigError, match="Another process is writing the journal"),
        Journal(path, {}),
    ):
        pass
    with Journal(path, {}):
        pass


def test_a_judge_that_falls_silent_is_told() -> None:
    judge = ScriptedJudge(lambda _: "[[A]]")
    judge.replies = lambda questions: iter([(questions[0], "[[A]]")])  # type: ignore[method-assign]
    with pytest.raises(DataError, match="left 5 of 6 questions unanswered"):
        arena.play(pairs_of(3, 1), judge)


# -- an endpoint ----------------------------------------------------------------------------------


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with serving() as found:
        yield found


def worded(count: int) -> list[SamplePair]:
    rng = Random(8)
    texts = ["".join(rng.choices("aeioubcdfgh", k=30)) for _ in range(2 * count)]
    return [
        (sample("us", n, texts[2 * n]), sample("them", n, texts[2 * n + 1])) for n in range(count)
    ]


def truth(pairs: list[SamplePair]) -> float:
    return sum(
        (vowels(a.continuation) > vowels(b.continuation))
        + (vowels(a.continuation) >= vowels(b.continuation))
        for a, b in pairs
    ) / (2 * len(pairs))


def test_an_endpoint_that_fails_now_and_then_judges_all(endpoint: Endpoint) -> None:
    rng = Random(0)

    def plan(number: int, _: str) -> tuple[int, dict[str, str], str] | None:
        status = rng.choice([None, None, None, None, None, 500, 429, 0, 503])
        if status is None:
            return None
        return status, {"retry-after": "0"} if number % 2 else {}, "busy"

    endpoint.plan = plan
    judge = EndpointJudge(endpoint.url + "/", "m", key="secret", patience=0.001, attempts=14)
    pairs = worded(40)
    match = arena.play(pairs, judge)
    assert match.win_rate.value == pytest.approx(truth(pairs))
    assert set(endpoint.answered.values()) == {1}
    assert endpoint.answered.total() == 80 < endpoint.asked.total()
    body = endpoint.bodies[0]
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("m", 0, 1024)
    assert {name.lower(): v for name, v in endpoint.headers[0].items()}[
        "authorization"
    ] == "Bearer secret"
    assert "secret" not in json.dumps(match.judge)


@pytest.mark.parametrize("parallel", [4])
def test_a_restart_asks_only_what_was_not_answered(
    endpoint: Endpoint, tmp_path: Path, parallel: int
) -> None:
    """At the 30th and the 70th request the endpoint fails for good."""
    journal, pairs = tmp_path / "journal.jsonl", worded(60)

    def plan(number: int, _: str) -> tuple[int, dict[str, str], str] | None:
        if number == 50:  # a kill would lose only what is under way
            assert journal.read_bytes().count(b"\n") >= endpoint.answered.total() - parallel
        return (400, {}, "out\nof credit") if number in (30, 70) else None

    endpoint.plan = plan
    judge = EndpointJudge(endpoint.url, "m", parallel=parallel, patience=0.001)
    for _ in range(2):
        with pytest.raises(EngineError, match="refused a question: status 400 out of credit"):
            arena.play(pairs, judge, journal=journal)
        kept = journal.read_bytes().count(b"\n")
        assert kept == endpoint.answered.total()  # what was under way counts, too
    match = arena.play(pairs, judge, journal=journal)
    assert match.win_rate.value == pytest.approx(truth(pairs))
    assert set(endpoint.answered.values()) == {1}
    assert endpoint.answered.total() == 120


@pytest.mark.full
def test_an_endpoint_that_stays_away_is_told(endpoint: Endpoint) -> None:
    judge = EndpointJudge(endpoint.url, "m", attempts=3, patience=0.001)
    endpoint.plan = lambda *_: (503, {}, "down")
    with pytest.raises(EngineError, match="failed 3 times in a row, at last with status 503 down"):
        arena.play(worded(1), judge)
    assert endpoint.asked.total() in (3, 6)
    endpoint.plan = lambda *_: (0, {}, "")
    with pytest.raises(EngineError, match="at last with RemoteProtocolError"):
        arena.play(worded(1), judge)
    nobody = EndpointJudge("http://127.0.0.1:1/v1", "m", attempts=2, patience=0.001)
    with pytest.raises(EngineError, match="at last with ConnectError"):
        arena.play(worded(1), nobody)


@pytest.mark.parametrize("text", ["no JSON", "{}", '{"choices": []}', "[]"])
def test_what_is_no_completion_is_told(endpoint: Endpoint, text: str) -> None:
    endpoint.plan = lambda *_: (200, {}, text)
    with pytest.raises(EngineError, match="not a chat completion"):
        arena.play(worded(1), EndpointJudge(endpoint.url, "m"))


def test_a_text_that_spells_a_field_of_the_template_is_left_alone() -> None:
    question = Question(prompt="{a}", a="{b}", b="{prompt}")
    for text in (
        "\n{a}\n",
        "\n{b}\n[The End of Assistant A",
        "\n{prompt}\n[The End of Assistant B",
    ):
        assert text in filled(question)
