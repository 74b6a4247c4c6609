"""
Triplets without labels
=======================

Sometimes classes are unknown, but people can judge that i is more like j than like k. How many such judgements
does a metric need?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from flrml import RidgeFLRML, draw_triplets, knn_accuracy

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(normalize(X), y, random_state=0)

# %%
# The judgements come from labels here, which the model does not see.

judged = draw_triplets(y, 5, random_state=0)
random = np.random.RandomState(0)
counts = [50, 150, 500, 1500, 5000]
shares = []
for count in counts:
    model = RidgeFLRML(15, random_state=0).fit(X, triplets=judged[random.permutation(len(judged))[:count]])
    asked = draw_triplets(y_test, 5, random_state=1)
    Y = normalize(model.transform(X_test))
    i, j, k = asked.T
    shares.append(np.mean(np.sum(Y[i] * (Y[j] - Y[k]), axis=1) > 0))
i, j, k = asked.T
cosine = np.mean(np.sum(X_test[i] * (X_test[j] - X_test[k]), axis=1) > 0)
print(f"right answers about new digits: {shares[-1]:.3f} with {counts[-1]} judgements, {cosine:.3f} by cosine")
print(f"5-NN accuracy: {knn_accuracy(model.transform(X), y, model.transform(X_test), y_test):.3f}")

figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
axes.semilogx(counts, shares, "o-", label="RidgeFLRML")
axes.axhline(cosine, color="grey", linestyle=":", label="cosine on the pixels")
axes.set(xlabel="training judgements", ylabel="right answers about new digits")
axes.legend()
plt.show()
