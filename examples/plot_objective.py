"""
What the published objective does to digits
===========================================

FLRML descends on the paper's objective. On digits the objective improves with every iteration while accuracy
falls: the more directions are whitened, the more noise counts as much as the digits themselves.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from flrml import FLRML, RidgeFLRML, knn_accuracy

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(normalize(X), y, test_size=0.5, random_state=0)


def accuracy(model):
    return knn_accuracy(model.transform(X), y, model.transform(X_test), y_test)


accuracies = []
model = FLRML(40, tol=0, random_state=0)
model.fit(X, y, callback=lambda model: accuracies.append(accuracy(model)))
ridge = accuracy(RidgeFLRML(40, random_state=0).fit(X, y))
cosine = knn_accuracy(X, y, X_test, y_test)

# %%
figure, (above, below) = plt.subplots(2, 1, figsize=(6, 5), sharex=True, layout="constrained")
above.plot(accuracies, "o-", label="FLRML")
above.axhline(ridge, color="#009E73", label="RidgeFLRML")
above.axhline(cosine, color="grey", linestyle=":", label="cosine on the pixels")
above.set(ylabel="5-NN accuracy")
above.legend()
below.plot(model.history_ / model.history_[0], "o-")
below.set(xlabel="iteration", ylabel="objective / first", xticks=range(0, 21, 5))
plt.show()
