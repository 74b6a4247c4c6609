import csv
import io
from dataclasses import replace

import pytest

from flrml.pipeline.report.comparison import (
    complexity_table,
    dataset_table,
    memory_table,
    reproduction_table,
    retrieval_table,
    splits_table,
    summary_table,
    with_svd_table,
    without_svd_table,
)
from flrml.pipeline.report.results import Results
from flrml.pipeline.report.table import Cell, Table
from tests.pipeline.results import growth, read, run


def named(results, **names):
    """The same results with descriptions of data sets that are the paper's own."""
    return replace(results, metas={name: {"paper": {"name": printed}} for name, printed in names.items()})


def column(table, name):
    """Cells of a column by the name of the row."""
    place = next(number for number, head in enumerate(table.head) if head.startswith(name))
    return {row[0].text: row[place] for row in table.rows}


@pytest.fixture
def results(tmp_path):
    return read(
        tmp_path,
        runs=[
            run("tdt2", "flrml", 0.965, train_seconds=2.0),
            run("tdt2", "flrml", 0.955, seed=1, train_seconds=4.0),
            run("tdt2", "kissme", 0.5, train_seconds=1.0),
            run("tdt2", "rmml"),
            run("tdt2", "lmnn", outcome="T", reason="too slow"),
            run("tdt2", "mflrml", 0.9, train_seconds=0.5),
            run("tdt2", "cosine", 0.7, train_seconds=0.01),
            run("m10-16", "lmnn", outcome="M", reason="too large"),
            run("m10-16", "flrml", 0.8),
            run("mine", "flrml", 0.6),
            run("big", "mflrml", 0.4),
        ],
    )


@pytest.fixture
def table(results):
    results = replace(results, svd={("tdt2", "plain"): 12.3})
    return with_svd_table(named(results, **{"tdt2": "TDT2", "m10-16": "M10-16"}))


def test_cells_hold_mean_deviation_and_the_papers_figure_with_the_difference(table):
    cells = column(table, "tdt2 (TDT2) %")
    assert cells["FLRML"] == Cell("96.0 ± 0.5 (96.3, −0.3)", bold=True)
    assert cells["KISSME"] == Cell("50.0 (95.9, −45.9)")
    assert column(table, "m10-16 (M10-16) %")["FLRML"].text == "80.0 (83.4*, −3.4)"


def test_mean_ranks_stand_beside_the_papers_on_the_same_data_sets(table):
    ranks = {name: cell.text for name, cell in column(table, "mean rank").items()}
    # On tdt2, RMML and LMNN did not end and share the third place; on the other two, FLRML is alone or first.
    assert ranks["FLRML"] == "1.0 (2.0)", "third of seven on TDT2 and first on M10-16 in the paper"
    assert ranks["LMNN"] == "2.8 (3.8)", "3.5 on tdt2 and 2 on m10-16; 1 and 6.5 in the paper"
    assert ranks["KISSME"] == "2.0 (4.0)"
    assert ranks["cosine on X (control)"] == ranks["t_svd"] == ""
    assert column(table, "mean rank")["FLRML"].bold


def test_seconds_stand_beside_the_papers_with_the_ratio(table):
    assert column(table, "tdt2 s")["FLRML"].text == "3 (10, ×0.3)"
    assert column(table, "mine s")["FLRML"].text == "2"


def test_runs_that_did_not_end_show_their_letter_beside_the_papers_figure(table):
    assert column(table, "tdt2 (TDT2) %")["RMML"].text == "E (87.5)"
    assert column(table, "tdt2 (TDT2) %")["LMNN"].text == "T (97.6*)"
    assert column(table, "m10-16 (M10-16) %")["LMNN"].text == "M (M)"
    assert column(table, "tdt2 s")["RMML"].text == "– (509)"
    assert column(table, "m10-16 s")["LMNN"].text == ""


def test_a_data_set_that_was_left_out_shows_the_papers_figures_alone(results):
    missing = {"rcv1": "RCV1_4Class.mat is missing", "mine": "gone", "m40-100": "gone"}
    table = with_svd_table(replace(named(results, tdt2="TDT2"), missing=missing))
    assert table.head[-2:] == ["rcv1 (RCV1, missing) %", "rcv1 s"]
    cells = {row[0].text: [cell.text for cell in row[-2:]] for row in table.rows}
    assert cells["FLRML"] == ["– (93.5)", "– (14)"]
    assert cells["cosine on X (control)"] == ["", ""]
    assert cells["t_svd"] == ["", "– (91)"]


def test_accuracies_on_a_sample_of_the_test_rows_say_how_many():
    runs = [run("mine", "cosine", 0.8, n_test=50), run("mine", "flrml-ridge", 0.9)]
    table = summary_table(Results(runs=runs))
    assert table.rows[0][1].text == "80.0 % in 2 s (on 50 test rows)"
    assert table.rows[0][3].text == "90.0 % in 2 s"
    assert (
        column(without_svd_table(Results(runs=runs)), "mine %")["cosine on X (control)"].text == "80.0 of 50 rows"
    )


def test_memory_has_a_column_per_data_set(results):
    table = memory_table(results)
    assert table.head == ["method", "tdt2", "m10-16", "mine", "big"]
    cells = {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}
    assert cells["FLRML"] == ["140", "140", "140", ""]
    assert cells["LMNN"] == ["T", "M", "", ""]


def test_the_best_accuracy_and_the_fastest_training_are_bold(table):
    bold = {name: [row for row, cell in column(table, name).items() if cell.bold] for name in ("tdt2 (", "tdt2 s")}
    assert bold == {"tdt2 (": ["FLRML"], "tdt2 s": ["KISSME"]}


def test_controls_are_rows_of_their_own_below(table):
    assert [row[0].text for row in table.rows] == [
        "FLRML",
        "KISSME",
        "RMML",
        "LMNN",
        "cosine on X (control)",
        "t_svd",
    ]
    assert column(table, "tdt2 s")["t_svd"].text == "12.3 (107, ×0.115)"


def test_a_data_set_that_is_not_the_papers_says_so(table):
    assert "mine (not the paper’s) %" in table.head


def test_own_data_are_not_compared_with_the_paper(results):
    table = without_svd_table(results)
    assert [head for head in table.head if head.endswith("%")] == ["tdt2 %", "big %"]
    assert "paper" not in table.note
    meta = {"splits": {"train": {"shape": (6, 5)}, "test": {"shape": (7, 5)}}, "n_classes": 2, "paper": None}
    table = dataset_table(Results(metas={"mine": {"name": "mine", "notes": ["all"], **meta}}))
    assert table.head == ["data set", "D", "n", "n test", "classes", "differences"]
    assert [cell.text for cell in table.rows[0]] == ["mine", "5", "6", "7", "2", "all"]


def test_a_data_set_without_methods_of_the_table_has_no_column(results, table):
    assert not any(head.startswith("big") for head in table.head)
    without_svd = without_svd_table(named(results, tdt2="TDT2"))
    assert [head for head in without_svd.head if head.endswith("%")] == [
        "tdt2 (TDT2) %",
        "big (not the paper’s) %",
    ]
    assert [row[0].text for row in without_svd.rows] == ["M-FLRML", "cosine on X (control)"]


def test_a_table_of_failures_alone_is_still_a_table(tmp_path):
    table = with_svd_table(read(tmp_path, runs=[run("digits", "flrml")]))
    assert [[cell.text for cell in row] for row in table.rows] == [["FLRML", "1.0", "E", ""], ["t_svd", "", "", ""]]


def test_complexity_has_the_printed_formula_ours_with_the_reason_and_the_measured_exponent(tmp_path):
    measured = [growth("n", "flrml", {100: 1.0, 200: 2.0, 400: None}), growth("D", "flrml", {10: 1.0, 20: None})]
    table = complexity_table(read(tmp_path, growth=measured))
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}
    assert rows["FLRML"][:3] == ["n r d + n r²", "r² + n d", "n r"]
    assert rows["FLRML"][3:] == ["2 n r d + n d² (6)", "r d + n d", "as printed", "n^1.00"]
    assert rows["DRML"][3:] == ["nnz(X) d + |T| d + D d² (4)", "as printed", "nnz(X)", "–"]
    assert "(6) K is never formed" in table.note


def test_reproduction_stands_beside_the_paper_and_the_authors_code(tmp_path):
    more = {"accuracy_reference_vote": 0.94, "start_rounds": 2, "null_steps": 1}
    runs = [
        run("tdt2", "flrml-reference", 0.95, **more),
        run("tdt2", "flrml"),
        run("mine", "flrml", 0.9, **more),
        run("tdt2", "kissme", 0.9),
    ]
    table = reproduction_table(named(read(tmp_path, paper_runs=runs), tdt2="TDT2"))
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["tdt2", "FLRML (reference)", "96.3", "95.0", "95.0", "94.0", "2", "4", "1", "2"],
        ["tdt2", "FLRML", "96.3", "–", "E", "", "", "", "", ""],
    ]


def test_data_sets_stand_beside_the_papers():
    def meta(name, D, n, classes, paper, notes):
        splits = {"train": {"shape": (n, D)}, "test": {"shape": (n + 1, D)}}
        return {"name": name, "splits": splits, "n_classes": classes, "paper": paper, "notes": notes}

    printed = {"D": 36771, "n": 4697, "n_test": 4697, "classes": 30}
    papers = {"name": "TDT2", "expected": printed, "differences": []}
    metas = {"tdt2": meta("tdt2", 36771, 4697, 30, papers, []), "mine": meta("mine", 5, 6, 2, None, ["all"])}
    table = dataset_table(Results(metas=metas))
    assert [cell.text for cell in table.rows[0]][-2:] == ["36,771, 4,697, 4,697, 30", "none"]
    assert [cell.text for cell in table.rows[1]] == ["mine", "–", "5", "6", "7", "2", "–", "all"]
    (left_out,) = dataset_table(Results(missing={"rcv1": "a file is not there"})).rows
    assert [cell.text for cell in left_out][-2:] == ["29,992, 4,813, 4,812, 4", "missing: a file is not there"]


def test_splits_have_mean_and_deviation_over_the_splits_of_a_data_set(tmp_path):
    runs = [
        run(f"digits-split{split}", "flrml", accuracy, label=label, study="digits")
        for label, accuracies in (("flrml", (0.8, 0.9)), ("no-rounds", (0.7, 0.7)))
        for split, accuracy in enumerate(accuracies)
    ]
    table = splits_table(read(tmp_path, studies=runs))
    assert table.head == ["method", "digits"]
    assert table.rows == [[Cell("FLRML"), Cell("85.0 ± 5.0", bold=True)], [Cell("no-rounds"), Cell("70.0 ± 0.0")]]


def test_retrieval_has_two_scores_per_data_set(tmp_path):
    runs = [run("a", "flrml", accuracy, seed=seed) for seed, accuracy in enumerate((0.8, 0.9))]
    table = retrieval_table(read(tmp_path, all_runs=[*runs, run("a", "lmnn", outcome="M", reason="large")]))
    assert table.head == ["method", "a recall@1", "a MAP@R"]
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["FLRML", "75.0 ± 5.0", "42.5 ± 2.5"],
        ["LMNN", "M", "M"],
    ]
    assert "one another: mean and deviation of up to 2 runs; bold" in table.note
    assert "one another; bold" in retrieval_table(read(tmp_path / "single", all_runs=runs[:1])).note


def test_the_formats_hold_the_same(tmp_path):
    table = Table(
        ["method", "a_b %"], [[Cell("x|y, z"), Cell("1 ± 2", bold=True)], [Cell("D²"), Cell("−3")]], "Note."
    )
    table.write(tmp_path / "table")
    rows = list(csv.reader(io.StringIO((tmp_path / "table.csv").read_text())))
    assert rows == [["method", "a_b %"], ["x|y, z", "1 ± 2"], ["D²", "−3"]]
    markdown = (tmp_path / "table.md").read_text().splitlines()
    assert markdown[2] == "| x\\|y, z | **1 ± 2** |"
    assert markdown[-1] == "Note."
    latex = (tmp_path / "table.tex").read_text()
    assert r"method & a\_b \% \\" in latex
    assert r"x$|$y, z & \textbf{1 $\pm$ 2} \\" in latex
    assert r"D$^2$ & $-$3 \\" in latex
    page = (tmp_path / "table.html").read_text()
    assert "<td>x|y, z</td><td><b>1 ± 2</b></td>" in page
    assert "<p>Note.</p>" in page
    assert [rule for rule in (r"\toprule", r"\midrule", r"\bottomrule") if rule not in latex] == []


def test_the_summary_names_the_best_other_method_and_counts_the_svd(results):
    runs = [*results.runs, run("tdt2", "flrml-ridge", 0.98, train_seconds=0.5)]
    table = summary_table(Results(runs=runs, svd={("tdt2", "plain"): 10.0, ("tdt2", "centered"): 99.0}))
    (row,) = (row for row in table.rows if row[0].text == "tdt2")
    assert [cell.text for cell in row[1:]] == [
        "70.0 % in 0.01 s",
        "96.0 % in 13 s",
        "98.0 % in 0.5 s",
        "M-FLRML: 90.0 % in 0.5 s",
    ]
    assert [cell.bold for cell in row[1:]] == [False, False, True, False]
    (alone,) = (row for row in table.rows if row[0].text == "mine")
    assert [cell.text for cell in alone[1:]] == ["–", "60.0 % in 2 s", "–", "–"]
