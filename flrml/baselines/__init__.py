"""Methods to compare FLRML with: one file each, one contract, one registry.

Every method is a scikit-learn estimator. ``fit`` takes labels, triplets and a spectrum by what the method needs;
``transform`` embeds rows; ``metric`` names how embedded rows are compared. Import a method
from its own module, or build it by name with :func:`flrml.methods.build`.
"""
