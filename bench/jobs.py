"""From a configuration and a prepared set to the job that a system is given."""

from __future__ import annotations

from baselines.clock import Clock
from baselines.devices import pick, synchronize
from baselines.job import Job
from baselines.model import MODELS
from bench.config import RunConfig
from datasets.store import PreparedSet, Split


def make_job(config: RunConfig, data: PreparedSet, train: Split | None = None, traced: bool = False) -> Job:
    """The job of a configuration, over the set's training inputs or others. UserError for a device that is not there.

    The clock of a traced one keeps every phase with its times.
    """
    device = pick(config.device)
    train = data.train if train is None else train
    return Job(
        schema=data.schema,
        train=train.head(config.limit_rows) if config.limit_rows else train,
        validation=data.validation,
        model=MODELS[config.model],
        optimizer=config.optimizer,
        lr=config.lr,
        precision=config.precision,
        batch_size=config.batch_size,
        epochs=config.epochs,
        seed=config.seed,
        device=device,
        threads=config.threads,
        settings=dict(config.settings),
        clock=Clock(synchronize=lambda: synchronize(device), traced=traced),
        cache_dir=data.cache_dir,
    )
