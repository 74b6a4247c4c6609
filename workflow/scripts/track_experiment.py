from flrml.files import read_json, write_json
from flrml.pipeline.stages.logs import logged
from flrml.pipeline.tracking.experiment import log_experiment
from flrml.pipeline.tracking.keys import tracking_uri
from flrml.pipeline.tracking.tracker import Tracker

with logged(snakemake.log[0]) as say:
    config = snakemake.params.config
    tracker = Tracker(tracking_uri(snakemake.params.tracking_uri), config["experiment"])
    run_id = log_experiment(
        tracker,
        config,
        drawn=snakemake.input.drawn,
        results=snakemake.input.results,
        keys=[key for path in snakemake.input.tracked for key in read_json(path)["parents"]],
    )
    write_json(snakemake.output[0], {"run": run_id, "experiment": tracker.experiment_id})
    say(f"experiment {config['experiment']} logged to MLflow with its figures and tables")
