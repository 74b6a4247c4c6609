from flrml.datasets import prepare
from flrml.pipeline.stages.decompose import decompose_dataset
from flrml.pipeline.stages.draw_triplets import draw_for_dataset
from flrml.pipeline.stages.iterations import follow_methods
from flrml.pipeline.stages.train import train


def test_every_variant_is_followed(tmp_path):
    data = tmp_path / "digits"
    prepare("digits", data, options={"max_train": 300, "max_test": 100})
    spectra = {}
    for kind in ("plain", "centered"):
        spectra[kind] = tmp_path / f"{kind}.npz"
        decompose_dataset(data, spectra[kind], tmp_path / f"{kind}.json", max_rank=40, kind=kind, seed=0)
    run = {
        "dataset": "digits",
        "seed": 1,
        "parameters": {
            method: {"n_components": 10} | ({} if method == "flrml-ridge" else {"max_iter": 4})
            for method in ("flrml", "flrml-reference", "flrml-ridge")
        },
        "n_neighbors": 5,
        "ridges": [0.1, 10.0],
    }
    limits = {"minutes": 2, "memory_mb": 4000}
    given = {"data": data, "triplets": tmp_path / "triplets.npy", "run": run, "limits": limits}
    draw_for_dataset(data, given["triplets"], n_triplets=5, seed=1)
    result = follow_methods(tmp_path / "out.json", spectra=spectra, **given)
    assert result["outcome"] == "ok"
    assert list(result["methods"]) == ["flrml", "flrml-reference", "flrml-ridge"]
    paper = result["methods"]["flrml"]
    assert len(paper["accuracies"]) == len(paper["objective"]) == 5
    own = {"dataset": "digits", "method": "flrml", "seed": 1, "parameters": run["parameters"]["flrml"]}
    trained = train(tmp_path / "run", spectrum=spectra["plain"], **given | {"run": own})
    assert trained["history"] == paper["objective"], "the same training as in the tables"
    assert [g for g, _ in result["ridges"]] == [0.1, 10.0]
    assert result["cosine"] > 0.8
    assert (tmp_path / "out.json").exists()
