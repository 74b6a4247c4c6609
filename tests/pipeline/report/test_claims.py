"""Each claim is checked on hand-made results that agree with it, and on some that do not."""

import pytest

from flrml.pipeline.report.claims import CLAIMS, claims_shown, claims_table
from flrml.pipeline.report.results import Results
from tests.pipeline.results import growth, point, read, run


def verdict(text, tmp_path, svd=None, **results):
    """Measurement and verdict of the claim whose text starts so."""
    (claim,) = (claim for claim in CLAIMS if claim.text.startswith(text))
    found = read(tmp_path, **results)
    found.svd = svd or {}
    return claim.verdict(found)


def test_without_results_nothing_can_be_tested():
    assert {claim.verdict(Results()) for claim in CLAIMS} == {("no such run", "cannot be tested here")}
    assert len(claims_table(Results()).rows) == len(CLAIMS)


def test_rounds_of_the_start(tmp_path):
    runs = [run("a", "flrml", 0.9, start_rounds=2), run("b", "flrml", 0.9, start_rounds=3)]
    assert verdict("The start", tmp_path, runs=runs) == ("FLRML 2–3 on a, b", "agrees")
    runs.append(run("b", "flrml-reference", 0.9, start_rounds=4))
    assert verdict("The start", tmp_path, runs=runs)[1] == "in part"
    assert verdict("The start", tmp_path, runs=runs[2:]) == ("FLRML (reference) 4 on b", "does not agree")


def test_iterations_and_null_steps(tmp_path):
    runs = [run("a", "flrml", 0.9, n_iter=15), run("a", "flrml-reference", 0.9, n_iter=6, null_steps=4)]
    measured, word = verdict("The descent converges", tmp_path, runs=runs)
    assert (measured, word) == ("FLRML 15 on a; FLRML (reference) 6 on a, 4 of 6 null steps", "in part")


@pytest.mark.parametrize(("seconds", "word"), [(3.0, "agrees"), (1.0, "does not agree")])
def test_faster_than_the_fastest_other_of_its_table(tmp_path, seconds, word):
    runs = [
        run("a", "flrml", 0.9, train_seconds=2.0),
        run("a", "flrml-reference", 0.9, train_seconds=0.1),
        run("a", "kissme", 0.9, train_seconds=seconds),
        run("a", "frml", 0.9, train_seconds=9.0),
        run("a", "svd", 0.9, train_seconds=0.1),
        run("a", "sgdinc", 0.9, train_seconds=0.1),
    ]
    assert verdict("FLRML is faster", tmp_path, runs=runs)[1] == word


def test_mini_batches_against_sgdinc(tmp_path):
    runs = [run("a", "mflrml", 0.9, train_seconds=2.0), run("a", "sgdinc", 0.9, train_seconds=5.0)]
    assert verdict("M-FLRML is faster than SGDINC", tmp_path, runs=runs) == (
        "time of the fastest of the paper's other methods over its own: a 2.5 × (SGDINC)",
        "agrees",
    )


@pytest.mark.parametrize(("accuracy", "word"), [(0.91, "agrees"), (0.95, "does not agree")])
def test_comparable_accuracy_is_within_two_points(tmp_path, accuracy, word):
    runs = [run("a", "flrml", 0.9), run("a", "lmnn", accuracy)]
    assert verdict("The accuracy of FLRML", tmp_path, runs=runs)[1] == word


def test_highest_on_several(tmp_path):
    runs = [run(name, method, 0.9 - 0.1 * (method == "lmnn")) for name in "ab" for method in ("flrml", "lmnn")]
    assert verdict("FLRML or M-FLRML", tmp_path, runs=runs) == (
        "highest of the paper's methods: FLRML on a, FLRML on b",
        "agrees",
    )
    assert verdict("FLRML or M-FLRML", tmp_path, runs=runs[:2])[1] == "does not agree"


def test_mini_batches_against_the_whole(tmp_path):
    runs = [
        run("a", "flrml", 0.9, train_seconds=4.0, peak_mb=300.0),
        run("a", "mflrml", 0.8, train_seconds=1.0, peak_mb=100.0),
    ]
    assert verdict("M-FLRML is generally", tmp_path, runs=runs) == (
        "points of M-FLRML above FLRML: a −10.0",
        "agrees",
    )
    assert verdict("M-FLRML takes less", tmp_path, runs=runs)[1] == "agrees"


@pytest.mark.parametrize(("peak", "word"), [(2000.0, "agrees"), (9000.0, "does not agree")])
def test_memory_on_large_data(tmp_path, peak, word):
    runs = [run("a", "mflrml", 0.8, n=20_000, D=1_000_000, peak_mb=peak), run("b", "mflrml", 0.8, n=10, D=10)]
    assert verdict("M-FLRML handles", tmp_path, runs=runs)[1] == word


def test_seconds_of_the_svd(tmp_path):
    runs = [run("a", "flrml", 0.9, train_seconds=2.0)]
    assert verdict("The SVD", tmp_path, runs=runs, svd={("a", "plain"): 20.0})[1] == "agrees"
    assert verdict("The SVD", tmp_path, runs=runs, svd={("a", "plain"): 1.0})[1] == "does not agree"


def test_methods_that_do_not_end(tmp_path):
    runs = [run("a", "lrsml", outcome="M", reason="too large"), run("a", "flrml", 0.9)]
    assert verdict("Methods polynomial", tmp_path, runs=runs) == ("out of memory or time: LRSML on a (M)", "agrees")
    assert verdict("Methods polynomial", tmp_path, runs=[run("a", "lrsml", 0.9)])[1] == "does not agree"


@pytest.mark.parametrize(("at_one", "word"), [(0.895, "agrees"), (0.8, "does not agree")])
def test_ratio_one(tmp_path, at_one, word):
    margin = [point("a", "margin_ratio", 0.5, [0.9, 0.9]), point("a", "margin_ratio", 1.0, [at_one])]
    assert verdict("A margin ratio", tmp_path, margin=margin)[1] == word


def test_larger_mini_batches_learn_faster_unless_their_spectrum_is_noise(tmp_path):
    batches = [point("a", "batch_triplets", size, [score], batches=20) for size, score in ((20, 0.6), (80, 0.8))]
    assert verdict("A larger N_t", tmp_path, batches=batches)[1] == "agrees"
    batches.append(point("a", "batch_triplets", 160, [0.3], batches=20))
    batches[-1]["batch"] = {"singular_values": 452, "noise": 175, "threshold": 0.01}
    measured, word = verdict("A larger N_t", tmp_path, batches=batches)
    assert word == "does not agree"
    assert "at N_t = 160, 175 of the 452 singular values of a mini-batch are below 1% of the largest" in measured


@pytest.mark.parametrize(("late", "word"), [(0.8, "agrees"), (0.9, "does not agree")])
def test_twenty_mini_batches(tmp_path, late, word):
    batches = [point("a", "batch_triplets", 80, [0.8], batches=40)]
    batches[0]["points"][0]["accuracies"] = [0.8] * 39 + [late]
    assert verdict("20 mini-batches", tmp_path, batches=batches)[1] == word
    twenty = [point("a", "batch_triplets", 80, [0.8], batches=20)]
    assert verdict("20 mini-batches", tmp_path, batches=twenty)[1] == "cannot be tested here"


@pytest.mark.parametrize(("seconds", "word"), [(2.0, "agrees"), (4.0, "does not agree")])
def test_growth(tmp_path, seconds, word):
    measured = [growth("n", "flrml", {100: 1.0, 200: seconds})]
    assert verdict("The cost of an iteration", tmp_path, growth=measured)[1] == word


def test_fixed_costs_say_nothing_about_growth(tmp_path):
    measured = [growth("n", "flrml", {100: 1.0, 200: 0.96})]
    assert verdict("The cost of an iteration", tmp_path, growth=measured) == (
        "fitted exponent −0.06 on digits, because fixed costs prevail",
        "cannot be tested here",
    )


@pytest.mark.parametrize(("last", "word"), [(0.9, "agrees"), (0.2, "does not agree")])
def test_steps(tmp_path, last, word):
    methods = {"flrml": {"objective": [2.0, 1.5, 1.0]}}
    followed = [{"dataset": "a", "outcome": "ok", "methods": methods, "retraction": [2.0, 2 * last]}]
    assert verdict("Barzilai", tmp_path, iterations=followed)[1] == word


def test_a_caption_says_what_is_shown_and_whether_the_runs_agree(tmp_path):
    results = read(tmp_path, descents=[run("a", "flrml", 0.9, start_rounds=2, n_iter=20)])
    assert claims_shown("convergence", results).splitlines() == [
        "The paper: The start of s settles within 3 rounds. Here: FLRML 2 on a; agrees.",
        "The paper: The descent converges in fewer than 15 iterations. Here: FLRML 20 on a; does not agree.",
    ]
    assert claims_shown("pareto", results) == ""
