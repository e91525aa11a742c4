"""The page of an evaluation: a whole one, what depends on the record, and no markup from text."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from reviser.errors import DataError
from reviser.lab.evals import page, report
from reviser.lab.evals.page import Interval, visible

FIXTURES = Path(__file__).parents[2] / "fixtures" / "report"


def record() -> dict[str, Any]:
    """Two systems with rollouts and the documents; nearly every number is another one."""
    found: dict[str, Any] = json.loads((FIXTURES / "record.json").read_text("utf-8"))
    return found


def without(content: dict[str, Any], *parts: str) -> dict[str, Any]:
    """Return a record without some parts of its systems, or without a judge."""
    for system in content["systems"]:
        for part in parts:
            if part in system:
                system[part] = [] if isinstance(system[part], list) else None
    for comparison in content["comparisons"]:
        if "perplexity" in parts:
            comparison["perplexity_ratio"] = []
        if "arena" in parts:
            comparison["arena"] = None
    return content


ROLLOUTS = ("model", "engine", "decoding", "stopped", "trajectories", "cost")


def test_a_whole_page() -> None:
    """After a change that is wanted, write page.md anew from what `to_markdown` returns."""
    expected = (FIXTURES / "page.md").read_text("utf-8")
    assert report.to_markdown(record()) == expected


# -- of every shape -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parts", [ROLLOUTS, ("perplexity",), ("mauve", "arena"), (*ROLLOUTS, "perplexity", "arena")]
)
def test_records_without_some_parts_make_a_page(parts: tuple[str, ...]) -> None:
    content = without(record(), *parts)
    fences = check_markdown(report.to_markdown(content))
    assert len(fences) == 3 * (1 + len(content["systems"]))
    lone = content | {"systems": content["systems"][:1], "comparisons": []}
    assert check_markdown(report.to_markdown(lone))


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
    content = record()
    content["comparisons"][0]["perplexity_ratio"][0]["ratio"] |= ends
    assert said in report.to_markdown(content)


def test_a_biased_judge_is_flagged_and_a_missing_one_named() -> None:
    content = record()
    assert "The judge prefers a side." in report.to_markdown(content)
    content["comparisons"][0]["arena"]["is_biased"] = False
    fair = report.to_markdown(content)
    assert "prefers a side" not in fair
    assert "--judge" not in fair
    assert "--judge" in report.to_markdown(without(content, "arena"))


def test_it_is_said_how_prompts_were_chosen_if_it_is_known() -> None:
    content = record()
    assert '"prefix_tokens": 7,' in report.to_markdown(content)
    del content["protocol"], content["data"]
    text = report.to_markdown(content)
    for name in ("data", "protocol"):
        assert f'"{name}": "not known"' in text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "not the record"),
        ({}, "not the record"),
        ({"format": 2}, "format 2"),
        ({"format": 1}, "not complete"),
        (record() | {"systems": [{"name": "x"}]}, "not complete"),
        (record() | {"comparisons": None}, "not complete"),
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


ATTACKS = (
    "<script>alert(1)</script> | a ``` b ```` & &amp; [x](http://x) ![y](//y)\n# no heading\n"
    "- no list\n```\n<b>no end</b>\n````\n</blockquote></td><img src=x onerror=y>"
    "\u202e\u05d0\u05d1\x00'\"",
    *("- x", "+ x", "* x", "1. x", "12) x", "---", "    x", "> x", "```", "~~~\nx"),
    *("a\n```\n<b>x</b>\n````\n", '" onload="x', "' onload='x", "<!-- x", "[x](y)"),
    *("[x]: y", "![x](y)", "a|b\\|c\\\\|d`|`", "<b>&lt;b&gt;&amp;#60;b&#62;</b>"),
    *("</blockquote></style></title><svg onload=x>", "a\r# x\u2028# y"),
)


def with_attacks(test: Any) -> Any:
    for attack in ATTACKS:
        test = example(attack)(test)
    return test


@settings(max_examples=25)
@with_attacks
@given(st.text(alphabet=st.sampled_from("<>&|`'\"\\\n\r\t []()#*_-+=~!.:1/@$^ aא\u202e\x00\ud800")))
def test_no_text_becomes_markup(text: str) -> None:
    content = record()
    content["systems"][0]["name"] = content["comparisons"][0]["systems"][0] = f"x{text}"
    for system in content["systems"]:
        system["perplexity"][0]["scorer"]["model"] = f"{text}s"
    content["comparisons"][0]["perplexity_ratio"][0]["scorer"] = f"{text}s"
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
