"""Methods to compare FLRML with: one file each, one contract, one registry.

Every method is a scikit-learn estimator. ``fit`` takes labels, triplets or a spectrum, as the method needs;
``transform`` embeds rows; ``metric`` names how embedded rows are compared. Import a method from its module, or
build it by name with :func:`flrml.methods.build`.
"""
