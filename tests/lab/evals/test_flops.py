"""Every number that the paper prints about FLOPs, once, from our formulas.

The lists are complete: where the paper's LaTeX is at hand, a test reads all numbers of these
sections and finds each of them here.
"""

import re

import pytest

from reviser.core.actions import ActionVocab
from reviser.core.trajectory import Trajectory
from reviser.errors import DataError
from reviser.lab.evals.flops import (
    LLADA_8B,
    LLAMA3_8B,
    QWEN_7B,
    QWEN_32B,
    SHARED,
    Row,
    Sizes,
    autoregressive,
    balanced,
    causal,
    cross_attention,
    decoding,
    diffusion,
    diffusion_lm,
    effective_length,
    full,
    insertion,
    levenshtein,
    mask_predict,
    masked,
    masked_diffusion,
    masked_diffusion_in_blocks,
    mult,
    multiplier,
    one_shot,
    reviser,
    sdlm,
    table,
    vocab,
)
from reviser.lab.evals.trajectories import Walk
from reviser.trajectories.policy import Append, Obfuscation
from reviser.trajectories.sampler import Sampler

S, N = SHARED, 128
REVISER_100M = Sizes(L=24, d=512, d_ff=2048, V=50_291, h=8, h_kv=8)
REVISER_300M = Sizes(L=26, d=896, d_ff=3584, V=50_291, h=14, h_kv=14)
AR = autoregressive(S, N)
AR_32B, AR_7B, AR_8B = (autoregressive(sizes, N) for sizes in (QWEN_32B, QWEN_7B, LLAMA3_8B))
G, M = 1e9, 1e6


REVISER = [reviser(S, N, p) for p in (0.20, 0.28, 0.33)]
SEDD = [diffusion(S, N, T_dec) for T_dec in (32, 2048)]
MDLM = D3PM = diffusion(S, N, 1000)
DIFFUSION_LM = [diffusion_lm(S, N, T, gamma) for T, gamma in ((200, 0), (200, 1), (2000, 0))]
SDLM = sdlm(QWEN_32B, N, D=4, k_bar=2)
DREAM = [masked_diffusion(QWEN_7B, N, T_dec) for T_dec in (10, 20)]
LLADA = [masked_diffusion(LLADA_8B, N, 256), masked_diffusion_in_blocks(LLADA_8B, N, b=32, T_b=16)]
LEVT = [levenshtein(S, N, R) for R in (5, 10)]
LEVT_EARLY = [levenshtein(S, N, R, f_del=0.5, f_plh=0.5) for R in (5, 10)]
SERIAL = range(1, N + 1)
INST = [insertion(S, lengths) for lengths in (balanced(N), SERIAL)]
NAT = one_shot(S, N, N, K_fert=50)
CMLM = mask_predict(S, N, N, T_mp=10)
DECODER = full(S, N) + cross_attention(S, N, N)

# As printed, unit included, and what we compute, in that unit.
MAIN: list[tuple[str, float]] = [
    # labelled tab:prior_art_summary_main
    ("1.00", 1),
    ("1.25", REVISER[0] / AR),
    ("1.50", REVISER[2] / AR),
    ("6.91", LEVT_EARLY[0] / AR),
    ("19.40", LEVT[1] / AR),
    ("2.02", INST[0] / AR),
    ("65.01", INST[1] / AR),
    ("11.86", CMLM / AR),
    ("140.51", DIFFUSION_LM[0] / AR),
    ("1402.36", DIFFUSION_LM[2] / AR),
    ("1.96", NAT / AR),
    ("1.39", REVISER[1] / AR),
]
APPENDIX: list[tuple[str, float]] = [
    # autoregressive
    ("11.0238G", causal(S, N) / G),
    ("4.9152G", vocab(S, N) / G),
    ("15.939G", AR / G),
    # labelled app:reviser_flops
    ("13.8269G", causal(S, effective_length(N, 0.20)) / G),
    ("6.144G", vocab(S, effective_length(N, 0.20)) / G),
    ("19.9709G", REVISER[0] / G),
    ("1.253", REVISER[0] / AR),
    ("15.3924G", causal(S, effective_length(N, 0.28)) / G),
    ("6.8267G", vocab(S, effective_length(N, 0.28)) / G),
    ("22.2191G", REVISER[1] / G),
    ("1.394", REVISER[1] / AR),
    ("16.5644G", causal(S, effective_length(N, 0.33)) / G),
    ("7.3361G", vocab(S, effective_length(N, 0.33)) / G),
    ("23.9006G", REVISER[2] / G),
    ("1.4995", REVISER[2] / AR),
    # labelled app:sedd_100m
    ("514.8424G", SEDD[0] / G),
    ("32.3008", SEDD[0] / AR),
    ("32949.9154G", SEDD[1] / G),
    ("2067.2497", SEDD[1] / AR),
    # labelled app:mdlm_100m, app:d3pm_100m
    ("16088.8259G", MDLM / G),
    ("1009.3993", MDLM / AR),
    # labelled app:diffusionlm_100m
    ("11.1736G", full(S, N) / G),
    ("2239.6404G", DIFFUSION_LM[0] / G),
    ("140.5131", DIFFUSION_LM[0] / AR),
    ("3217.7652G", DIFFUSION_LM[1] / G),
    ("201.8799", DIFFUSION_LM[1] / AR),
    ("22352.1669G", DIFFUSION_LM[2] / G),
    ("1402.356", DIFFUSION_LM[2] / AR),
    # labelled app:diff_family_big_ar
    ("4099.3869G", AR_32B / G),
    ("906.6536G", AR_7B / G),
    ("962.7605G", AR_8B / G),
    # labelled app:sdlm_32b
    ("8198.9416G", SDLM / G),
    ("2", SDLM / AR_32B),
    # labelled app:dream_7b
    ("8768.9307G", DREAM[0] / G),
    ("9.6718", DREAM[0] / AR_7B),
    ("17502.9816G", DREAM[1] / G),
    ("19.305", DREAM[1] / AR_7B),
    # labelled app:llada_8b
    ("238317.9374G", LLADA[0] / G),
    ("247.536", LLADA[0] / AR_8B),
    ("36426.5572G", LLADA[1] / G),
    ("37.8355", LLADA[1] / AR_8B),
    # Levenshtein Transformer
    ("8.8906G", full(S, 102.4) / G),
    ("0.1573M", mult(102.4, 768, 2) / M),
    ("2.7M", mult(103.4, 1536, 17) / M),
    ("1.9661G", vocab(S, 51.2) / G),
    ("30.9237G", levenshtein(S, N, 1) / G),
    ("154.6186G", LEVT[0] / G),
    ("309.2373G", LEVT[1] / G),
    ("22.0331G", levenshtein(S, N, 1, f_del=0.5, f_plh=0.5) / G),
    ("110.1657G", LEVT_EARLY[0] / G),
    ("220.3315G", LEVT_EARLY[1] / G),
    ("9.7006", LEVT[0] / AR),
    ("19.4013", LEVT[1] / AR),
    ("6.9117", LEVT_EARLY[0] / AR),
    ("13.8234", LEVT_EARLY[1] / AR),
    # Insertion Transformer
    ("22.061G", sum(full(S, n_t) for n_t in balanced(N)) / G),
    ("10.0992G", sum(vocab(S, n_t + 1) for n_t in balanced(N)) / G),
    ("32.1602G", INST[0] / G),
    ("2.0177", INST[0] / AR),
    ("714.2568G", sum(full(S, n_t) for n_t in SERIAL) / G),
    ("321.9456G", sum(vocab(S, n_t + 1) for n_t in SERIAL) / G),
    ("1036.2024G", INST[1] / G),
    ("65.0105", INST[1] / AR),
    # one-shot NAT
    ("3.9259G", cross_attention(S, N, N) / G),
    ("4.9152M", mult(N, 768, 50) / M),
    ("31.1932G", NAT / G),
    ("1.957", NAT / AR),
    # Mask-Predict
    ("15.0995G", DECODER / G),
    ("26.88G", vocab(S, sum(masked(N, 10))) / G),
    ("189.0486G", CMLM / G),
    ("11.8607", CMLM / AR),
]


@pytest.mark.parametrize(("printed", "value"), [*MAIN, *APPENDIX])
def test_a_printed_number_is_ours_to_its_last_digit(printed: str, value: float) -> None:
    number = printed.rstrip("GM")
    four_digits = f"{value:.4f}".rstrip("0").rstrip(".")  # how the paper rounds
    assert number in (four_digits, f"{value:.2f}")
    if (printed, value) in MAIN:
        assert number == f"{value:.2f}"


def test_what_is_printed_without_a_unit() -> None:
    assert [round(effective_length(N, p), 2) for p in (0.20, 0.28, 0.33)] == [160, 177.78, 191.04]
    assert sum(masked(N, 10)) == 700
    assert (QWEN_32B.d_kv, QWEN_7B.d_kv, LLADA_8B.d_kv, LLAMA3_8B.d_kv) == (1024, 512, 4096, 1024)
    assert balanced(N) == [1, 2, 4, 8, 16, 32, 64, 128]


def test_the_table_has_every_row_of_the_papers_tables() -> None:
    rows = table()
    small = [AR, *REVISER, *SEDD, MDLM, D3PM, *DIFFUSION_LM, *LEVT, *LEVT_EARLY, *INST, NAT, CMLM]
    large = [(AR_32B, [SDLM]), (AR_7B, DREAM), (AR_8B, LLADA)]
    expected = [(cost, cost / AR) for cost in small]
    expected += [(cost, cost / base) for base, costs in large for cost in (base, *costs)]
    assert [(row.flops, row.multiplier) for row in rows] == expected
    assert len({(row.method, row.variant) for row in rows}) == len(rows)
    assert [row.multiplier for row in rows if row.variant == "baseline"] == [1] * 4
    assert table(64)[0] == Row(
        method="AR", variant="baseline", flops=autoregressive(S, 64), multiplier=1
    )


def test_a_move_fraction_of_one_is_refused() -> None:
    with pytest.raises(DataError, match="p_move"):
        reviser(S, N, 1.0)


# -- against the paper itself ---------------------------------------------------------------------


def numbers(latex: str, start: str, end: str) -> list[str]:
    part = latex[latex.index(start) : latex.index(end)]
    return [n + unit for n, unit in re.findall(r"\\num\{([\d.]+)\}(?:\\,\\([GM]))?", part)]


def test_no_printed_number_is_forgotten(latex: str) -> None:
    main = numbers(latex, r"\label{sec:why_nar_costs}", r"\section{Related Work}")
    appendix = numbers(latex, r"\section{Prior Work Mechanisms", r"\section{More Qualitative")
    assert {*main} == {printed for printed, _ in MAIN}
    bare = {printed.rstrip("GM") for printed, _ in [*MAIN, *APPENDIX]}
    assert {number.rstrip("GM") for number in appendix} <= bare


def test_sizes_are_the_printed_ones(latex: str) -> None:
    form = r"L=(\d+),\\quad d=(\d+),\\quad d_\{\\text\{ff\}\}=(\d+),\\quad \|V\|=(\d+),\\quad\s*"
    found = re.findall(form + r"h=(\d+),\\quad h_\{\\text\{kv\}\}=(\d+)", latex)
    ours = [(x.L, x.d, x.d_ff, x.V, x.h, x.h_kv) for x in (QWEN_32B, QWEN_7B, LLADA_8B, LLAMA3_8B)]
    assert [tuple(map(int, sizes)) for sizes in found] == ours
    assert r"n=128,\quad |V_c|=50{,}000,\quad d=d_{\text{model}}=768,\quad L=12" in latex
    trained = [(x.L, x.d, x.h, x.d_ff) for x in (REVISER_100M, REVISER_300M)]
    printed = re.findall(r"\$(?:\(L,d,h,d_\{\\text\{ff\}\}\)=)?\((\d+),(\d+),(\d+),(\d+)\)", latex)
    assert [tuple(map(int, sizes)) for sizes in printed] == trained
    assert (S.d_ff, S.d_kv, S.gated) == (4 * 768, 768, False)


# -- real rollouts --------------------------------------------------------------------------------

VOCAB = ActionVocab.build(100)
PREFIX = range(35)


def walks(policy: Append | Obfuscation, count: int = 40, n: int = 100) -> list[Walk]:
    sampler = Sampler(VOCAB, policy)
    sampled = (sampler.sample([7] * n, prefix=PREFIX, index=index) for index in range(count))
    return [Walk.of(trajectory, VOCAB) for trajectory in sampled]


def test_a_measured_multiplier_is_the_costs_of_the_histories() -> None:
    some = walks(Obfuscation(), count=12)
    found = multiplier(S, some)
    ours = sum(causal(S, 37 + w.actions) + vocab(S, w.actions) for w in some)
    theirs = 12 * (causal(S, 37 + 101) + vocab(S, 101))
    assert found.measured.value == pytest.approx(ours / theirs)
    alone = sum(autoregressive(S, w.actions) for w in some) / (12 * autoregressive(S, 101))
    assert found.without_preamble.value == pytest.approx(alone)
    p_move = sum(len(w.moves) for w in some) / sum(w.actions for w in some)
    assert found.analytic == pytest.approx(reviser(S, 100, p_move) / autoregressive(S, 100))
    assert 1.2 < found.measured.low < found.measured.value < found.measured.high < 1.4


def test_a_text_cut_off_at_a_limit_has_no_stop_on_either_side() -> None:
    move = VOCAB.move_id(-1)
    cut = Walk.of(Trajectory(prefix=(5,), restoration=(7, move, 8)), VOCAB)
    found = multiplier(S, [cut])
    assert found.measured.value == decoding(S, 3, 3) / decoding(S, 3, 2)
    assert found.measured.n == 1


def test_a_text_that_shrank_is_refused() -> None:
    richer = ActionVocab.build(100, operators=["delete"])
    shrunk = Walk.of(
        Trajectory(prefix=(5, 6), restoration=(richer.delete or 0, richer.stop)), richer
    )
    with pytest.raises(DataError, match="shrank"):
        multiplier(S, [shrunk, *walks(Append(), count=1)])
