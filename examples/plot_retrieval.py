"""
Retrieval: neighbours before and after
======================================

Which digits does a query find? Each row shows a query on the left and its nearest training digits, by cosine
on the pixels and in the learned metric. Wrong ones have an orange frame.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from flrml import RidgeFLRML
from flrml.neighbors import nearest

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(normalize(X), y, test_size=0.5, random_state=0)
model = RidgeFLRML(40, random_state=0).fit(X, y)
before = nearest(X, X_test, 6)[0]
after = nearest(model.transform(X), model.transform(X_test), 6)[0]

# %%
# The queries are those for which the two differ most.

wrong = [(y[found] != y_test[:, None]).sum(axis=1) for found in (before, after)]
queries = np.argsort(wrong[1] - wrong[0], kind="stable")[:4]
figure, axes = plt.subplots(len(queries), 13, figsize=(11, 3.6), layout="constrained")
for line, query in zip(axes, queries, strict=True):
    shown = [X_test[query], *X[before[query]], *X[after[query]]]
    labels = [y_test[query], *y[before[query]], *y[after[query]]]
    for panel, digit, label in zip(line, shown, labels, strict=True):
        panel.imshow(digit.reshape(8, 8), cmap="gray_r")
        panel.set(xticks=[], yticks=[])
        colour = "#D55E00" if label != y_test[query] else "lightgrey"
        for spine in panel.spines.values():
            spine.set(color=colour, linewidth=2.5)
axes[0, 0].set_title("query")
axes[0, 3].set_title("by cosine on the pixels")
axes[0, 9].set_title("in the learned metric")
plt.show()
print(f"wrong neighbours of all queries: {wrong[0].mean():.2f} before, {wrong[1].mean():.2f} after, of 6")
