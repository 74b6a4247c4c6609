"""
Groups matter
=============

Each shape is seen in several poses. A model that may compare a pose with another pose of the same shape
learns to recognise shapes it has seen, not classes. `groups=` tells which rows belong together: they are held
out together, and are no positives of one another.
"""

import tempfile

import matplotlib.pyplot as plt
import numpy as np

from flrml import RidgeFLRML, knn_accuracy
from flrml.datasets import open_groups, open_split, prepare

folder = tempfile.TemporaryDirectory()
prepare("shapes10-16", f"{folder.name}/shapes", options={"models": (12, 6), "poses": 8})
X, y = open_split(f"{folder.name}/shapes/train")
X_test, y_test = open_split(f"{folder.name}/shapes/test")
groups = open_groups(f"{folder.name}/shapes/train")

# %%
# The accuracy that the model expects of itself, `best_score_`, is honest only if it knows the groups.

rows = []
for name, given in (("without groups", None), ("with groups", groups)):
    model = RidgeFLRML(30, random_state=0).fit(X, y, groups=given)
    accuracy = knn_accuracy(model.transform(X), y, model.transform(X_test), y_test)
    rows.append((name, model.best_score_, accuracy))
    print(f"{name:15} expected {model.best_score_:.3f}, on new shapes {accuracy:.3f}")

figure, axes = plt.subplots(figsize=(6, 2.6), layout="constrained")
place = np.arange(len(rows))
axes.barh(place + 0.2, [row[1] for row in rows], 0.4, color="#E69F00", label="expected from training rows")
axes.barh(place - 0.2, [row[2] for row in rows], 0.4, color="#0072B2", label="on shapes never seen")
axes.set(yticks=place, yticklabels=[row[0] for row in rows], xlabel="5-NN accuracy", xlim=(0, 1))
figure.legend(loc="outside upper center", ncols=2)
plt.show()
folder.cleanup()
