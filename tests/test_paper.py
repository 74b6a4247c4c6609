"""The paper's tables in the package, cell by cell, against a second transcription in tests/data."""

from pathlib import Path

import pytest

from flrml import paper

SUPERSCRIPT = str.maketrans({"²": "^2", "³": "^3"})


def transcribed(number):
    """Rows of a table as lists of fields."""
    text = (Path(__file__).parent / "data" / "paper_tables.txt").read_text()
    block = text.split(f"[{number}]")[1].split("\n\n")[0]
    return [line.split("; ") for line in block.strip().splitlines()]


def cells(fields):
    """Pairs of accuracy and seconds, and letters; with each whether accuracy and seconds are bold."""
    fields = list(fields)
    while fields:
        first = fields.pop(0)
        if first.isalpha():
            yield first, False, False
        else:
            seconds = fields.pop(0)
            yield (float(first.rstrip("*")), int(seconds.rstrip("*"))), first.endswith("*"), seconds.endswith("*")


def test_table_1():
    assert {name: tuple(map(int, rest)) for name, *rest in transcribed(1)} == paper.DATASETS


def test_table_2():
    def plain(formula):
        return formula.translate(SUPERSCRIPT).replace(" ", "")

    printed = {name: tuple(map(plain, rest)) for name, *rest in transcribed(2)}
    assert printed == {name: tuple(map(plain, rest)) for name, rest in paper.COMPLEXITY.items()}


@pytest.mark.parametrize(
    ("number", "datasets", "table", "bold", "own"),
    [
        (3, paper.WITH_SVD_DATASETS, paper.WITH_SVD, paper.BOLD_WITH_SVD, "FLRML"),
        (4, paper.WITHOUT_SVD_DATASETS, paper.WITHOUT_SVD, paper.BOLD_WITHOUT_SVD, "M-FLRML"),
    ],
)
def test_tables_3_and_4(number, datasets, table, bold, own):
    head, *rows = transcribed(number)
    assert tuple(head[1:]) == datasets
    rows = [row for row in rows if row[0] != "t_{svd}"]
    assert [row[0] for row in rows] == list(table)
    for name, *fields in rows:
        found = list(cells(fields))
        assert tuple(cell for cell, _, _ in found) == table[name]
        assert [accuracy for _, accuracy, _ in found] == [name in methods for methods in bold]
        assert [seconds for _, _, seconds in found] == [name == own] * len(datasets)


def test_seconds_of_the_svd():
    (row,) = (row for row in transcribed(3) if row[0] == "t_{svd}")
    assert tuple(map(int, row[1:])) == paper.SVD_SECONDS


def test_flrml_is_at_most_two_points_behind_in_the_papers_own_tables():
    for table, own in ((paper.WITH_SVD, "FLRML"), (paper.WITHOUT_SVD, "M-FLRML")):
        for column in zip(*table.values(), strict=True):
            accuracies = {
                name: cell[0] for name, cell in zip(table, column, strict=True) if isinstance(cell, tuple)
            }
            assert accuracies[own] >= max(accuracies.values()) - 2
