"""Experiments: measured runs, tracking in MLflow, figures and tables. Needs ``pip install flrml[pipeline]``."""
