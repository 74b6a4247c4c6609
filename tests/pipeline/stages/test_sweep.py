"""Points of sweeps over prepared data."""

import numpy as np

from flrml.pipeline.stages.sweep import describe_batch


def test_singular_values_below_one_per_cent_are_noise():
    random = np.random.RandomState(0)
    signal = random.standard_normal((60, 3)) @ random.standard_normal((3, 40))
    X = signal + 1e-4 * random.standard_normal((60, 40))
    described = describe_batch(X, np.arange(60) % 3, 5)
    assert described["noise"] == described["singular_values"] - 3
