"""
Digits in ten lines
===================

How many directions does a nearest-neighbour classifier need? A learned map comes close to the accuracy
of all 64 pixels with five numbers per digit.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from flrml import RidgeFLRML

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, random_state=0)

directions = [2, 3, 5, 9, 15, 30]
accuracies = []
for d in directions:
    model = make_pipeline(Normalizer(), RidgeFLRML(d, random_state=0), KNeighborsClassifier(5, metric="cosine"))
    accuracies.append(model.fit(X, y).score(X_test, y_test))

cosine = make_pipeline(Normalizer(), KNeighborsClassifier(5, metric="cosine")).fit(X, y).score(X_test, y_test)

# %%
# Ten classes need at most nine discriminants; further directions distinguish digits of one class. With very few
# directions RidgeFLRML warns that on validation rows the cosine of all pixels is better.

figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
axes.plot(directions, accuracies, "o-", label="RidgeFLRML")
axes.axhline(cosine, color="grey", linestyle=":", label="cosine on all 64 pixels")
axes.set(xlabel="directions", ylabel="5-NN accuracy", xscale="log", xticks=directions, xticklabels=directions)
axes.minorticks_off()
axes.legend()
plt.show()
