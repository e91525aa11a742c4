"""The page says what the record says, all of it, and nothing in it becomes markup."""

import copy
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from reviser.errors import DataError
from reviser.lab.evals import page, paper, report
from reviser.lab.evals.page import Interval, visible

HOSTILE = (
    "<script>alert(1)</script> | a ``` b ```` & &amp; [x](http://x) ![y](//y)\n"
    "# no heading\n- no list\n```\n<b>no end</b>\n````\n"
    "</blockquote></td><img src=x onerror=y>\u202e\u05d0\u05d1\x00'\""
)


def estimate(value: float, low: float | None = None, high: float | None = None) -> dict[str, Any]:
    ends = {"low": value * 0.83 if low is None else low, "high": high or value * 1.31}
    return {"value": value, **ends, "n": 37, "method": "bootstrap-t"}


def system(name: str, seed: float = 1.0, *, rollouts: bool = True) -> dict[str, Any]:
    """What a record holds of a system; every number is another one."""
    numbers = iter(0.001953 * seed * n + 0.1 for n in range(1, 200))
    fields = [
        *("actions_per_token", "insert_fraction", "move_fraction", "move_distance"),
        *("backward_fraction", "insert_position", "end_append_fraction"),
        *("inner_insert_fraction", "revised", "travel_per_token", "detour_fraction"),
        *("trailing_fraction", "needed_actions_per_token"),
    ]
    trajectories: dict[str, Any] = {field: estimate(next(numbers)) for field in fields}
    trajectories["move_sizes"] = {str(2**k): estimate(next(numbers)) for k in range(6)}
    diversity = [
        *("distinct_1", "distinct_2", "distinct_3", "self_bleu", "repetition_4", "words"),
        *("characters",),
    ]
    found: dict[str, Any] = {
        "name": name,
        "samples": 74,
        "prompts": 37,
        "empty": 1,
        "texts": f"{name} digest",
        "model": None,
        "engine": None,
        "decoding": None,
        "stopped": None,
        "perplexity": [],
        "mauve": [],
        "diversity": {measure: estimate(next(numbers)) for measure in diversity},
        "trajectories": None,
        "order_map": None,
        "cost": None,
        "examples": [
            {"prompt": f"Prompt {n}", "continuation": f"{HOSTILE} of {name} {n}"} for n in range(3)
        ],
    }
    if rollouts:
        found |= {
            "model": model(seed),
            "engine": "hf",
            "decoding": {
                "temperature": 0.7,
                "top_k": 40,
                "top_p": 0.95,
                "min_p": 0.0,
                "max_actions": 333,
                "max_length": 222,
                "max_edits": None,
                "stop_bias": 0.0,
            },
            "stopped": {"stop": 70, "max_actions": 4},
            "trajectories": trajectories,
            "order_map": [[0.0025] * 20] * 20,
            "cost": {
                "sizes": {"L": 3, "d": 128, "d_ff": 512, "V": 512, "h": 4, "h_kv": 4},
                "measured": estimate(1.2345 * seed),
                "without_given": estimate(1.3456 * seed),
                "analytic": 1.4567 * seed,
            },
        }
    return found


def model(seed: float) -> dict[str, Any]:
    recipe = {
        "data": {"text": ["stories.txt"], "shards": None},
        "training": {"steps": int(4321 * seed)},
        "policy": {"kind": "spans", "mean": 16.0},
        "trunk": {"layers": 3, "width": 128, "heads": 4},
        "base": None,
    }
    return {
        "architecture": "GPTNeoXForCausalLM",
        "parameters": 659072,
        "dtypes": ["F32"],
        "context": 192,
        "tokenizer": "55cc",
        "training": {
            "recipe": recipe,
            "seen": {"ids": 165766, "text_tokens": 127592, "examples": 1920},
            "metrics": {
                "eval_held_out_nll": 1.6745,
                "eval_held_out_nll_95": 0.0926,
                "eval_held_out_insert_nll": 1.3139,
                "epoch": 1.0,
            },
            "commit": "fcdb485d",
        },
    }


def record(
    *names: str,
    rollouts: bool = True,
    scorers: tuple[str, ...] = ("gpt2-large",),
    judged: bool = True,
) -> dict[str, Any]:
    names = names or ("reviser", "append")
    systems = [system(name, 1 + n / 7, rollouts=rollouts) for n, name in enumerate(names)]
    systems.append(system("reference", 2.0, rollouts=False))
    for s, scorer in enumerate(scorers):
        for n, each in enumerate(systems):
            each["perplexity"].append(
                {
                    "scorer": {"model": scorer, "weights": f"hash of {scorer}", "begin": [0]},
                    "perplexity": estimate(20.5 + 7 * n + 3.1 * s),
                    "bits_per_character": estimate(1.11 + 0.07 * n + 0.03 * s),
                    "empty": 2,
                    "longer": 5,
                }
            )
    for n, each in enumerate(systems[:-1]):
        about = {"model": "bert", "weights": "w", "features": "pll", "max_tokens": 100}
        each["mauve"] = [{"features": about, "clusters": 12, "mauve": estimate(0.61 + 0.03 * n)}]
    match = {
        "win_rate": estimate(0.55, 0.51, 0.59),
        "shown_first": estimate(0.62, 0.58, 0.66),
        "consistent": estimate(0.71, 0.66, 0.77),
        "wins": 81,
        "losses": 59,
        "ties": 7,
        "invalid": 3,
        "is_biased": True,
        "judge": {"judge": "local", "model": "critic", "template": "T"},
        "order": "both",
    }
    comparisons = [
        {
            "systems": [names[0], other],
            "perplexity_ratio": [
                {"scorer": scorer, "ratio": estimate(1.21 + 0.1 * n, 1.0004, 1.5)}
                for n, scorer in enumerate(scorers)
            ],
            "arena": copy.deepcopy(match) if judged else None,
        }
        for other in names[1:]
    ]
    versions = {
        "versions": {"numpy": "2.4.6"},
        "python": "3.11",
        "machine": "m",
        "commit": "c0ffee",
    }
    return {"format": 1, "systems": systems, "comparisons": comparisons, "made_with": versions}


# -- all of the record ----------------------------------------------------------------------------


def paths(content: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the estimates of a record are."""
    if isinstance(content, dict) and content.keys() >= {"value", "low", "high", "method"}:
        yield at
    elif isinstance(content, dict | list):
        items = content.items() if isinstance(content, dict) else enumerate(content)
        for key, part in items:
            yield from paths(part, (*at, key))


def place(content: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        content = content[key]
    return content


def changed(path: tuple[Any, ...], value: Any) -> str:
    """The page of a record that differs in one place."""
    content = copy.deepcopy(RECORD)
    place(content, path[:-1])[path[-1]] = value
    return report.to_markdown(content)


RECORD = record(scorers=("gpt2-large", "dream"))
PAGE = report.to_markdown(RECORD)


def shown_intervals(text: str) -> list[tuple[list[float], float]]:
    """Every value with its interval on a page, and half of its last digit, shares as shares."""
    number = r"(\d[\d,]*(?:\.\d+)?)"
    found = []
    for *texts, percent in re.findall(rf"{number} \[{number}, {number}\](\s?%)?", text):
        scale = 0.01 if percent else 1.0
        digits = len(texts[0].partition(".")[2])
        values = [scale * float(each.replace(",", "")) for each in texts]
        found.append((values, scale * 0.501 * 10**-digits))
    return found


def test_each_estimate_is_shown_with_both_ends() -> None:
    shown = shown_intervals(PAGE)
    for path in paths(RECORD):
        found = place(RECORD, path)
        ends = [found["value"], found["low"], found["high"]]
        assert any(
            all(abs(a - b) <= half for a, b in zip(ends, values, strict=True))
            for values, half in shown
        ), path


@pytest.mark.full
def test_another_value_or_end_makes_another_page() -> None:
    for path in paths(RECORD):
        for name in ("value", "low", "high", "n", "method"):
            value = "another" if name == "method" else place(RECORD, path)[name] * 3
            assert changed((*path, name), value) != PAGE, (path, name)


OURS = ("systems", 0)
RUN = (*OURS, "model", "training")
MATCH = ("comparisons", 0, "arena")
PROTOCOL = {
    "prefix_tokens": 7, "total_tokens": 70, "min_tokens": 50, "max_tokens": 90, "prompts": 40,
    "seeds": [5, 6],
}  # fmt: skip


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *(((*OURS, name), 99_123) for name in ("samples", "prompts", "empty")),
        (("systems", 1, "texts"), "another digest"),
        ((*OURS, "model", "parameters"), 99_123_000_000),
        ((*RUN, "seen", "text_tokens"), 99_123),
        ((*RUN, "recipe", "training", "steps"), 99_123),
        ((*RUN, "recipe", "policy"), "append"),
        ((*RUN, "recipe", "data", "text"), ["another.txt"]),
        ((*RUN, "metrics", "eval_held_out_nll"), 9.9123),
        ((*RUN, "metrics", "eval_held_out_nll_95"), 0.99123),
        ((*RUN, "commit"), "another commit"),
        ((*OURS, "decoding", "temperature"), 0.123),
        *(((*OURS, "decoding", name), 99_123) for name in ("max_actions", "max_moves")),
        *(((*OURS, "decoding", name), -1.25) for name in ("stop_bias", "move_bias")),
        ((*OURS, "decoding"), None),
        ((*OURS, "stopped"), {"context": 99_123}),
        ((*OURS, "cost", "analytic"), 99.123),
        ((*OURS, "order_map", 3), [0.99123] + [0.0] * 19),
        ((*OURS, "perplexity", 0, "scorer", "weights"), "another hash"),
        *(((*OURS, "perplexity", 0, name), 99_123) for name in ("empty", "longer")),
        ((*OURS, "mauve", 0, "clusters"), 99_123),
        ((*OURS, "mauve", 0, "features", "weights"), "another hash"),
        (("systems", 2, "examples", 1, "continuation"), "another text"),
        *(((*MATCH, name), 99_123) for name in ("wins", "losses", "ties", "invalid")),
        ((*MATCH, "is_biased"), False),
        ((*MATCH, "order"), "random"),
        ((*MATCH, "judge", "template"), "another template"),
        (("made_with", "versions", "numpy"), "another"),
        (("made_with", "commit"), "another"),
        (("protocol",), PROTOCOL),
        (("data",), "another corpus"),
    ],
)
def test_other_facts_make_another_page(path: tuple[Any, ...], value: Any) -> None:
    assert changed(path, value) != PAGE


def test_the_papers_figures_are_all_there() -> None:
    for by_model in [*paper.PERPLEXITY.values(), paper.MAUVE]:
        for name, value in by_model.items():
            assert f"{value:.4f}" in PAGE
            assert str(name) in PAGE
    for rates in paper.ARENA.values():
        assert all(f"{round(100 * rate, 4):g} %" in PAGE for rate in rates.values())


@pytest.mark.full
def test_the_same_record_gives_the_same_bytes() -> None:
    code = (
        "import json, sys; from reviser.lab.evals import report;"
        "sys.stdout.buffer.write(report.to_markdown(json.load(sys.stdin)).encode());"
        "assert not {'torch', 'transformers', 'sklearn'} & {*sys.modules}"
    )
    for seed in ("1", "2"):
        made = subprocess.run(
            [sys.executable, "-c", code],
            input=json.dumps(RECORD).encode(),
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        assert made.stdout == PAGE.encode()


# -- of every shape -------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize(
    "content",
    [
        record("alone", judged=False),
        record("alone", rollouts=False, scorers=(), judged=False),
        record(rollouts=False),
        record(scorers=()),
        record(judged=False),
        record("a", "b", "c", "d", scorers=("x", "y", "z")),
        record(HOSTILE, "b" * 300),
    ],
)
def test_records_of_every_shape_make_a_page(content: dict[str, Any]) -> None:
    text = report.to_markdown(content)
    written = [
        part
        for n in range(3)
        for part in (f"Prompt {n}", *(s["examples"][n]["continuation"] for s in content["systems"]))
    ]
    assert check_markdown(text) == [f"{visible(part)}\n" for part in written]


def test_an_infinite_value_is_no_crash() -> None:
    content = record()
    content["systems"][0]["perplexity"][0]["perplexity"] = {
        "value": float("inf"), "low": 3.5, "high": None, "n": 2, "method": "bootstrap-t"
    }  # fmt: skip
    assert "unbounded [" in report.to_markdown(content)


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ({}, "| 1.2100 [1.0004, 1.5000] | leaves out 1 |"),  # so exactly that one sees it
        ({"value": 0.5, "low": 0.4, "high": 0.99}, "| leaves out 1 |"),
        ({"low": 0.4, "high": 1.0}, "| includes 1: no difference is shown |"),
        ({"low": None, "high": None}, "| includes 1: no difference is shown |"),
    ],
)
def test_it_is_said_whether_an_interval_includes_1(ends: dict[str, Any], said: str) -> None:
    content = record(judged=False)
    content["comparisons"][0]["perplexity_ratio"][0]["ratio"] |= ends
    assert said in report.to_markdown(content)


def test_a_biased_judge_is_flagged_and_a_missing_one_named() -> None:
    assert "The judge prefers a side." in PAGE
    fair = changed((*MATCH, "is_biased"), False)
    assert "prefers a side" not in fair
    assert "--judge" not in fair
    assert "--judge" in report.to_markdown(record(judged=False))


def test_what_is_not_known_is_said_to_be() -> None:
    content = record(rollouts=False)
    text = report.to_markdown(content)
    for name in ("Training data", "Decoding", "Documents"):
        assert f"| {name} | not known |" in text
    content["protocol"] = dict(PROTOCOL)
    text = report.to_markdown(content)
    assert "prefix of 7 tokens, 70 tokens in all" in text
    assert "74: 37 prompts |" in text  # not all that were chosen
    content["protocol"]["prompts"] = 37
    said = "74: 37 prompts for each of 2 seeds (5, 6), of which 37 differ"
    assert said in report.to_markdown(content)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "not the record"),
        ({}, "not the record"),
        ({"format": 2}, "format 2"),
        ({"format": 1}, "not complete"),
        (RECORD | {"systems": [{"name": "x"}]}, "not complete"),
        (RECORD | {"comparisons": None}, "not complete"),
    ],
)
def test_what_is_no_record_is_refused_in_a_sentence(content: Any, said: str) -> None:
    with pytest.raises(DataError, match=said) as caught:
        report.to_markdown(content)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


def test_the_format_is_that_of_evaluations() -> None:
    pytest.importorskip("torch", reason="torch is not installed, so nothing is evaluated.")
    from reviser.lab.evals import evaluation
    from reviser.lab.evals.texts import Sample

    samples = {
        name: tuple(
            Sample(system=name, id=str(n), prompt="A", continuation=f" {name} {n}", reference=" b")
            for n in range(3)
        )
        for name in ("x", "y")
    }
    systems = [evaluation.System(name=name, samples=each) for name, each in samples.items()]
    made = json.loads(json.dumps(evaluation.evaluate(systems)))
    assert check_markdown(report.to_markdown(made))


# -- no text becomes markup -----------------------------------------------------------------------

ALLOWED = {
    *("heading_open", "heading_close", "paragraph_open", "paragraph_close", "inline"),
    *("text", "fence", "code_inline", "strong_open", "strong_close"),
    *("table_open", "table_close", "thead_open", "thead_close", "tbody_open", "tbody_close"),
    *("tr_open", "tr_close", "th_open", "th_close", "td_open", "td_close", "text_special"),
}


def check_markdown(text: str) -> list[str]:
    """Read as CommonMark with tables, refuse all else, and return the quoted texts."""
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e]", text)
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    every = [token for outer in tokens for token in (outer, *(outer.children or ()))]
    assert {token.type for token in every} <= ALLOWED
    assert [token.info for token in every if token.type == "fence"].count("json") == 1
    return [token.content for token in every if token.type == "fence" and token.info == "text"]


def test_what_a_model_writes_is_read_back_as_it_is() -> None:
    quoted = check_markdown(report.to_markdown(record(HOSTILE, "b")))
    assert f"{visible(f'{HOSTILE} of {HOSTILE} 0')}\n" in quoted
    assert "\\u202e" in quoted[1]  # spelt out, since it would turn the rest of the line


ATTACKS = (
    *("- x", "+ x", "* x", "1. x", "12) x", "---", "    x", "> x", "```", "~~~\nx"),
    *("a\n```\n<b>x</b>\n````\n", '" onload="x', "' onload='x", "<!-- x", "[x](y)"),
    *("[x]: y", "![x](y)", "a|b\\|c\\\\|d`|`", "<b>&lt;b&gt;&amp;#60;b&#62;</b>"),
    *("</blockquote></style></title><svg onload=x>", "a\r# x\u2028# y"),
)


def with_attacks(test: Any) -> Any:
    for attack in ATTACKS:
        test = example(attack)(test)
    return test


@settings(max_examples=60, deadline=None)
@with_attacks
@given(st.text(alphabet=st.sampled_from("<>&|`'\"\\\n\r\t []()#*_-+=~!.:1/@$^ aא\u202e\x00\ud800")))
def test_no_text_becomes_markup(text: str) -> None:
    content = record(f"x{text}", "b", scorers=(f"{text}s",))
    for system in content["systems"]:
        system["examples"] = [{"prompt": text, "continuation": text}]
    content["data"] = text
    made = report.to_markdown(content)
    made.encode()
    assert check_markdown(made) == [f"{visible(text)}\n"] * 4
    blocks = (
        MarkdownIt("commonmark").enable("table").parse(page.table("x", ["", text], [[text, text]]))
    )
    cells = [b.content for b in blocks if b.type == "inline"]
    assert len(cells) == 5


# -- numbers --------------------------------------------------------------------------------------


@given(
    st.floats(1e-4, 1e5),
    st.floats(1e-4, 1) | st.just(0.0),
    st.floats(1e-4, 3) | st.just(0.0),
)
def test_intervals_are_shown_to_two_digits_of_their_width(
    value: float, down: float, up: float
) -> None:
    low, high = value * (1 - down), value * (1 + up)
    ((values, half),) = shown_intervals(str(Interval({"value": value, "low": low, "high": high})))
    assert values == pytest.approx([value, low, high], abs=half)
    if 0.01 * value < high - low and value > 1e-2:
        assert half <= 0.06 * (high - low)
