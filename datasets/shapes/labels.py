"""The planted model: the true log-odds of an input, from its small tables and dense features and nothing else.

A sum of terms, each with a weight that says how much it varies over the inputs: a random effect of each value of a
column, a dense feature (linear), or a pair of columns (the dot product of two vectors, RANK wide). All are scaled by
one number, so that the AUC of the true probabilities is the published one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from datasets.planted import expected_auc, intercept, sigmoid
from datasets.shapes.features import SmallColumn
from datasets.shapes.laws import bisect
from datasets.shapes.levels import BLOCK
from datasets.shapes.log import HOURS_A_DAY, Inputs, Log

RANK = 2
STREAM = 4  # of random numbers, after the log's own
AUC_SAMPLE, AUC_STEPS = 1 << 14, 14  # inputs that the scale is sought on, and steps of the search
MOST_SPREAD = 10.0  # standard deviation of the log-odds at which nearly all labels are certain


class Term:
    """A column's effect, a pair of columns' or a dense feature's, with mean 0 and the given spread over a sample."""

    def __init__(self, names: Sequence[str], weight: float, log: Log, sample: Inputs, random: np.random.Generator):
        self._dense = log.schema.dense.index(names[0]) if names[0] in log.schema.dense else None
        self._factors: list[tuple[int, np.ndarray]] = []  # column, [rows, RANK or 1]
        for name in names if self._dense is None else ():
            at = next(at for at, column in enumerate(log.columns) if column.name == name)
            assert isinstance(log.columns[at], SmallColumn), f"{name} is a large table: its values are seen too rarely"
            vectors = random.standard_normal((log.schema.tables[at].rows, RANK if len(names) > 1 else 1))
            vectors -= vectors[sample.ids[:, at]].mean(axis=0)  # leaves a pair no effect of one column alone
            self._factors.append((at, vectors))
        self._mean, self._factor = 0.0, 1.0
        values = self(sample)
        self._mean, self._factor = float(values.mean()), weight / float(values.std())

    def __call__(self, inputs: Inputs) -> np.ndarray:
        """[n] float64."""
        if self._dense is not None:
            values = inputs.dense[:, self._dense].astype(np.float64)
        else:
            at, product = self._factors[0][0], self._factors[0][1]
            product = product[inputs.ids[:, at]]
            for at, vectors in self._factors[1:]:
                product = product * vectors[inputs.ids[:, at]]
            values = product.sum(axis=1)
        return self._factor * (values - self._mean)


class Planted:
    """Gives the probabilities of a log's inputs, and with them their labels."""

    def __init__(self, log: Log, seed: int) -> None:
        random = np.random.default_rng([seed, STREAM])
        shape, sample = log.shape, log.inputs(0)
        if shape.hours:  # a block is but a moment of the log
            sample.dense[:, 0] = np.log1p(np.arange(BLOCK) % HOURS_A_DAY)
        self._terms = [Term(names, weight, log, sample, random) for names, weight in shape.planted.items()]
        self._scale, self._intercept = 1.0, 0.0
        spread = self.log_odds(sample)
        spread /= spread.std()
        few = spread[:AUC_SAMPLE]

        def auc(scale: float) -> float:
            return expected_auc(sigmoid(scale * few + intercept(scale * few, shape.base_rate)))

        scale = bisect(0.0, MOST_SPREAD, lambda scale: auc(scale) >= shape.best_auc, AUC_STEPS)
        self._scale = scale / float(self.log_odds(sample).std())
        self._intercept = intercept(scale * spread, shape.base_rate)

    def log_odds(self, inputs: Inputs) -> np.ndarray:
        """[n] float64."""
        total = np.full(len(inputs.ids), self._intercept)
        for term in self._terms:
            total += self._scale * term(inputs)
        return total
