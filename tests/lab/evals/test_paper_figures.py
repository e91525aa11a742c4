"""Every published figure that we print is looked up in the paper's own tables."""

import re
from dataclasses import asdict

import pytest

from reviser.lab.evals import paper
from reviser.lab.evals.paper import Model


def rows(latex: str, label: str) -> list[list[str]]:
    """The cells of the table with this label, below its header."""
    table = latex.split(rf"\label{{{label}}}")[0].rsplit(r"\begin{tabular}", 1)[1]
    body = table.split(r"\midrule", 1)[1].split(r"\bottomrule")[0].replace(r"\midrule", "")
    lines = [re.sub(r"\\num\{([\d.]+)\}", r"\1", line) for line in body.strip().splitlines()]
    return [[cell.strip() for cell in line.rstrip("\\ ").split("&")] for line in lines if line]


def percent(cell: str) -> float:
    assert cell.endswith(r"\%")
    return float(cell.removesuffix(r"\%")) / 100


def model(cell: str) -> Model:
    return Model(*cell.rsplit(" ", 1))


def test_perplexities_are_the_papers(latex: str) -> None:
    printed: dict[str, dict[Model, float]] = {scorer: {} for scorer in paper.PERPLEXITY}
    for label in ("tab:evalppl_vs_ar_baseline", "tab:evalppl_vs_diffusion"):
        for name, *cells in rows(latex, label):
            for scorer, cell in zip(printed, cells, strict=True):
                assert printed[scorer].setdefault(model(name), float(cell)) == float(cell)
    assert printed == paper.PERPLEXITY
    header = " & ".join(rf"evalPPL {scorer} $\downarrow$" for scorer in paper.PERPLEXITY)
    assert latex.count(header) == 2


def test_mauve_is_the_papers(latex: str) -> None:
    printed = {model(name): float(cell) for name, cell in rows(latex, "tab:mauve_all")}
    assert printed == paper.MAUVE


def test_win_rates_are_the_papers(latex: str) -> None:
    printed: dict[str, dict[Model, float]] = {size: {} for size in paper.SIZES}

    def add(size: str, other: Model, won: str, lost: str) -> None:
        assert percent(won) + percent(lost) == pytest.approx(1)
        printed[size][other] = pytest.approx(percent(won))

    for name, won, lost in rows(latex, "tab:arena_vs_ar_baseline"):
        add(model(name).size, model(name), won, lost)
    for name, *cells in rows(latex, "tab:ar_baselines_100m"):
        add("100M", Model(name, cells[0]), *cells[1:3])
        add("300M", Model(name, cells[3]), *cells[4:])
    for name, won, lost in rows(latex, "tab:arena_vs_diffusion"):
        add("300M" if model(name) == paper.SEDD_ABSORB else "100M", model(name), won, lost)
    assert printed == paper.ARENA


def test_trajectory_statistics_are_the_papers(latex: str) -> None:
    for column, size in enumerate(paper.SIZES, start=1):
        numbers: list[float] = []
        for row in rows(latex, "tab:trajectory_stats"):
            is_percent = "%" in row[column] or "%" in row[0]
            found = re.findall(r"[\d.]+", row[column])
            numbers += [float(x) / (100 if is_percent else 1) for x in found]
        ours = [
            value
            for published in paper.TRAJECTORIES[size].values()
            for value in (published.values() if isinstance(published, dict) else [published])
        ]
        assert ours == pytest.approx(numbers)


SAID = {
    "training_data": ["trained on FineWeb data"],
    "policy": [r"obfuscation mix $p(\Delete)=0.8$, $p(\Move)=0.2$"],
    "trained_on": [
        "the trained AR baselines are trained on 30B text tokens",
        r"Reviser models are trained on 30B edit-history tokens (including \Move{} tokens)",
    ],
    "documents": [
        "English validation split of \\texttt{allenai/c4}",
        "pre-filter examples to total GPT-2 token length 144 to 216",
    ],
    "lengths": ["use a 35-token prefix", "toward a 180-token total sequence target"],
    "texts": [
        r"three seeds (\texttt{123}, \texttt{124}, \texttt{125}) with 1000 prompts per seed (3000",
    ],
    "decoding": [
        r"temperature $\tau=0.9$, top-$k=50$, and no top-$p$ truncation",
        "decoding with a maximum of 256 actions",
    ],
    "scorer": ["an autoregressive evaluator (GPT-2 Large;", "diffusion-style evaluator (Dream-7B;"],
    "mauve": [
        "3000 shared C4 examples",
        "truncated to 100 tokens, and BERT pseudo-loglikelihood features",
    ],
    "judge": ["We use Skywork-Critic-8B", "we randomize candidate order"],
}
TRUNK = {
    "100M": r"100M uses $(L,d,h,d_{\text{ff}})=(24,512,8,2048)$",
    "300M": r"300M uses $(26,896,14,3584)$",
}


def test_each_setting_stands_in_the_paper(latex: str) -> None:
    assert set(asdict(paper.SETTING["100M"])) == {*SAID, "trunk"}
    for size, setting in paper.SETTING.items():
        for name, ours in asdict(setting).items():
            said = [TRUNK[size]] if name == "trunk" else SAID[name]
            assert all(words in latex for words in said), name
            numbers = re.findall(r"\d+(?:\.\d+)?", ours.replace("C4", ""))
            whole = " ".join(said) + " three 3 "  # the paper spells the number of seeds
            assert all(number in re.findall(r"\d+(?:\.\d+)?", whole) for number in numbers), ours
