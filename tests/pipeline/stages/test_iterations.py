from flrml.datasets import prepare
from flrml.pipeline.stages.decompose import decompose_dataset
from flrml.pipeline.stages.iterations import follow_methods


def test_every_variant_is_followed(tmp_path):
    data = tmp_path / "digits"
    prepare("digits", data, options={"max_train": 300, "max_test": 100})
    spectra = {}
    for kind in ("plain", "centered"):
        spectra[kind] = tmp_path / f"{kind}.npz"
        decompose_dataset(data, spectra[kind], tmp_path / f"{kind}.json", max_rank=40, kind=kind, seed=0)
    run = {
        "dataset": "digits",
        "parameters": {"n_components": 10, "max_iter": 4},
        "n_neighbors": 5,
        "ridges": [0.1, 10.0],
    }
    limits = {"minutes": 2, "memory_mb": 4000}
    result = follow_methods(tmp_path / "out.json", data=data, spectra=spectra, run=run, limits=limits)
    assert result["outcome"] == "ok"
    assert list(result["methods"]) == ["flrml", "flrml-reference", "flrml-ridge"]
    paper = result["methods"]["flrml"]
    assert len(paper["accuracies"]) == len(paper["objective"]) == 5
    assert [g for g, _ in result["ridges"]] == [0.1, 10.0]
    assert result["cosine"] > 0.8
    assert (tmp_path / "out.json").exists()
