import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from flrml.datasets import open_split, prepare
from flrml.files import read_json, write_json
from flrml.neighbors import knn_accuracy
from flrml.pipeline.__main__ import main
from flrml.pipeline.serving.search_index import write_embeddings
from flrml.pipeline.stages.learned_map import LearnedMap


def test_the_command_of_the_docs_writes_embeddings_with_the_accuracy_of_the_run(
    trained, trained_once, data, tmp_path
):
    page = (Path(__file__).parents[3] / "docs/embeddings.md").read_text()
    command = re.search(r"^python (.* results/.*)$", page, re.MULTILINE)[1].split()
    subprocess.run([sys.executable, *command], cwd=tmp_path, check=True)
    train, test = (np.load(tmp_path / "out" / part / "embeddings.npy") for part in ("train", "test"))
    assert train.dtype == np.float16
    (_, y), (_, y_test) = open_split(data / "train"), open_split(data / "test")
    accuracy = knn_accuracy(train.astype(np.float32), y, test.astype(np.float32), y_test, n_neighbors=3)
    assert accuracy == pytest.approx(read_json(trained_once / "metrics.json")["accuracy"], abs=0.021)
    assert len((tmp_path / "out/test/names.txt").read_text().splitlines()) == len(y_test)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ("embeddings", "runs/none", "out"),
            "runs/none: no metrics.json; name the folder of a run that has ended with outcome ok",
        ),
        (
            ("embedding", "runs/none", "out"),
            "unknown command 'embedding'; choose from follow, ui, prune, report, predict, embeddings",
        ),
    ],
)
def test_a_folder_without_a_model_and_an_unknown_command_are_one_line(tmp_path, capsys, arguments, line):
    assert main(*arguments) == 1
    assert capsys.readouterr().err == f"{line}\n"


def test_a_bilinear_similarity_is_refused(tmp_path):
    (tmp_path / "metrics.json").write_text("{}")
    LearnedMap(np.eye(2), "bilinear").save(tmp_path / "model.npz", {})
    with pytest.raises(ValueError, match="a bilinear similarity has no embeddings"):
        write_embeddings(tmp_path, tmp_path / "out")


def test_rows_keep_the_names_that_the_data_give_them(tmp_path):
    lines = [f"row {number},{number},{-number},{'ab'[number % 2]}" for number in range(8)]
    (tmp_path / "mine.csv").write_text("\n".join(["id,width,height,kind", *lines, ""]))
    options = {"train": tmp_path / "mine.csv", "target": "kind", "names": "id", "holdout": 0.5}
    prepare("mine", tmp_path / "data", options=options)
    LearnedMap(np.eye(2), "cosine").save(tmp_path / "model.npz", {})
    sources = {part: {"source": str(tmp_path / "data" / part)} for part in ("train", "test")}
    write_json(tmp_path / "metrics.json", {"data": sources})
    write_embeddings(tmp_path, tmp_path / "out")
    names = [name for part in sources for name in (tmp_path / "out" / part / "names.txt").read_text().splitlines()]
    assert sorted(names) == [f"row {number}" for number in range(8)]
