"""
Text with tf-idf, compared with logistic regression
===================================================

Is a metric worth it for text, for which linear classifiers are strong? The documents are the docstrings of public
functions, the classes are the packages that they come from.
"""

import inspect
import time
from importlib import import_module

import matplotlib.pyplot as plt
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from flrml import RidgeFLRML

packages = ["numpy", "scipy.stats", "scipy.signal", "scipy.sparse.linalg", "scipy.special", "sklearn.metrics", "os"]
documents, labels = [], []
for name in packages:
    package = import_module(name)
    for member in dir(package):
        text = inspect.getdoc(getattr(package, member)) or ""
        if not member.startswith("_") and len(text) > 100:
            documents.append(text)
            labels.append(name)
train, test, y, y_test = train_test_split(documents, labels, stratify=labels, random_state=0)
print(f"{len(train)} training documents, {len(test)} test documents")

# %%
# The same features for all three. The metric gives neighbours, which the classifier does not.

tfidf = TfidfVectorizer(sublinear_tf=True, min_df=2, token_pattern=r"[a-z]{3,}")
neighbours = KNeighborsClassifier(5, metric="cosine")
models = {
    "cosine": make_pipeline(tfidf, neighbours),
    "logistic regression": make_pipeline(tfidf, LogisticRegression(C=10, max_iter=1000)),
    "RidgeFLRML": make_pipeline(tfidf, RidgeFLRML(50, random_state=0), neighbours),
}
accuracies = {}
for name, model in models.items():
    start = time.perf_counter()
    model.fit(train, y)
    accuracies[name] = model.score(test, y_test)
    print(f"{name:20} {accuracies[name]:.3f} in {time.perf_counter() - start:.1f} s")

figure, axes = plt.subplots(figsize=(6, 2.2), layout="constrained")
bars = axes.barh(list(accuracies), list(accuracies.values()), color=["grey", "#E69F00", "#0072B2"])
axes.bar_label(bars, fmt="%.3f", padding=3)
axes.set(xlabel="accuracy", xlim=(0.5, 1))
plt.show()
