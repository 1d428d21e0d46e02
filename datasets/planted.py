"""What generated sets with planted labels share: probabilities, a given base rate, and the best that can be reached."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score


def sigmoid(log_odds: np.ndarray) -> np.ndarray:
    """[n] float64 probabilities."""
    return 1.0 / (1.0 + np.exp(-log_odds))


def intercept(log_odds: np.ndarray, base_rate: float) -> float:
    """The constant that makes the mean probability the base rate, by bisection."""
    low, high = -20.0, 20.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if sigmoid(log_odds + middle).mean() < base_rate else (low, middle)
    return (low + high) / 2


def best(labels: np.ndarray, chances: np.ndarray) -> dict[str, float | None]:
    """What the true probabilities themselves reach on the test split: no model can do better, but for luck."""
    if not len(labels) or labels.min() == labels.max():
        return {"best_auc": None, "best_logloss": None}
    return {"best_auc": float(roc_auc_score(labels, chances)), "best_logloss": float(log_loss(labels, chances))}


def expected_auc(chances: np.ndarray) -> float:
    """The AUC of true probabilities over labels drawn from them, in expectation."""
    chances = np.sort(chances)
    negatives = np.cumsum(1.0 - chances)
    above = chances @ (negatives - (1.0 - chances) / 2)  # an input beside itself counts half
    return float(above / (chances.sum() * negatives[-1]))
