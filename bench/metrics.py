"""How well scores separate and calibrate: AUC, log loss, accuracy."""

from __future__ import annotations

import numpy as np

from baselines.placement import log_loss

__all__ = ["accuracy", "auc", "log_loss"]


def auc(logits: np.ndarray, labels: np.ndarray) -> float | None:
    """Area under the ROC curve of logits [n]; None where the labels are all the same, which leaves it undefined."""
    from sklearn.metrics import roc_auc_score

    if len(np.unique(labels)) < 2:
        return None
    return float(roc_auc_score(labels, logits))


def accuracy(logits: np.ndarray, labels: np.ndarray) -> float:
    """Share of inputs on the right side of probability one half."""
    return float(np.mean((logits > 0) == (labels > 0.5)))
