"""One run: from a configuration to one finished row, whatever happens on the way."""

from __future__ import annotations

import json
import resource
import traceback
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baselines.registry import load_system
from bench import env, interrupts
from bench.config import RunConfig, code_version
from bench.progress import Progress
from bench.results import Results, finished
from datasets.errors import UserError
from datasets.store import PreparedSet, open_set
from slipstream.sampling import NO_THRESHOLD

if TYPE_CHECKING:
    from baselines.clock import Clock
    from baselines.job import Job
    from bench.outcome import Outcome

NEVER_COUNTED_IS_ZERO = ("row_updates_skipped", "link_to_device_bytes", "link_to_host_bytes", "net_bytes")
COUNTED = ("rows_read", "rows_written", "dense_flops")  # a run without any has not measured them
MEASURED = (
    *("steps", "samples_seen", "samples_trained", "samples_skipped", "eval_s"),
    *("auc_last", "auc_best", "best_at_samples", "logloss_last", "accuracy_last", "base_rate"),
    *("hot_rows_share", "hot_inputs_share"),
)
TRACE = "trace.json"
CONFIGURED = (
    *("system", "settings_text", "dataset", "model", "optimizer", "lr", "batch_size", "precision"),
    *("device", "threads", "seed", "repeat", "epochs"),
)


def on_device(config: RunConfig) -> RunConfig:
    """The configuration with `auto` replaced by the device that it means here."""
    from baselines.devices import pick

    return replace(config, device=pick(config.device).type)


def run_cell(
    config: RunConfig, out: Path, progress: Progress, title: str = "", force: bool = False, profile: bool = False
) -> dict[str, Any]:
    """Train one system once and return its row of runs.csv, which is in the file by then.

    A run that is already done with this configuration, code and data is not run again, unless forced. With `profile`
    the run's folder gets a trace of all its phases. The row's status says how it ended: `done`, `diverged`, `failed`,
    `interrupted`, or `skipped` where the system cannot run here.
    UserError for what is wrong before the run: its data, its device, the folder of results.
    """
    results, config = Results(out), on_device(config)
    title = title or f"{config.system} {config.settings_text}".strip() + f" on {config.dataset}, seed {config.seed}"
    data = open_set(config.dataset, report=progress.say)
    digest, code = config.config_hash(data.fingerprint), code_version()
    if not force and (row := finished(out, digest, code)):
        progress.say(f"{title}: done before (run {row['run_id']}); --force runs it again")
        return dict(row)
    with interrupts.held():  # from here on there is a run, and so there has to be a row
        run_id = results.new_run(f"{config.system}-{config.dataset}-s{config.seed}")
        progress.start(title)
        row = {"run_id": run_id, "config_hash": digest, "code_version": code} | _run(
            config, data, results, run_id, progress, profile
        )
        results.append("runs", row)
        progress.say(f"{title}: {sentence(row)}")
    return row


def sentence(row: dict[str, Any]) -> str:
    """How a run ended, for people."""
    if row["status"] != "done":
        return f"{row['status']}: {row['reason']}"
    auc = f", AUC {float(row['auc_last']):.4f}" if row["auc_last"] not in (None, "") else ""
    rate = f" ({float(row['samples_per_s']):,.0f} samples/s)" if row["samples_per_s"] not in (None, "") else ""
    seen, skipped = (float(row.get(key) or 0) for key in ("samples_seen", "samples_skipped"))
    share = f", {skipped / seen:.1%} skipped" if skipped else ""
    none = f", {NO_THRESHOLD}: nothing skipped" if NO_THRESHOLD in (row.get("notes") or "") and not skipped else ""
    return f"done, {float(row['train_s']):.2f} s{rate}{auc}{share}{none}"


def _run(
    config: RunConfig, data: PreparedSet, results: Results, run_id: str, progress: Progress, profile: bool
) -> dict[str, Any]:
    from baselines import process
    from bench.jobs import make_job
    from bench.outcome import Outcome
    from bench.replay import store
    from bench.trace import trace_json

    started_at = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    process.set_up(config.threads)
    results.write_text(run_id, "config.toml", config.to_toml())
    results.write_text(run_id, "env.json", json.dumps(env.describe(), indent=2) + "\n")
    job = make_job(config, data, traced=profile)
    outcome = Outcome(job.clock)
    process.give_back_memory()
    _reset_peak_rss()
    status, reason, trace = _train(config, data, job, outcome, FileRecorder(results, run_id, progress))
    if trace:
        results.write_text(run_id, "error.txt", trace)
    if status == "done":
        facts = store.facts_of(job, outcome.hot_rows_share)
        results.write_file(run_id, store.FILE, lambda path: store.save(path, facts, list(job.clock.work.steps())))
    if job.clock.spans is not None:
        results.write_text(run_id, TRACE, trace_json(f"{config.system} on {config.dataset}", job.clock.spans))
    for (lane, phase), spent in sorted(job.clock.phases.items()):
        amounts = {key: spent.amounts.get(key) for key in ("rows", "bytes", "flops")}
        row = {"lane": lane, "phase": phase, "seconds": spent.seconds, "calls": spent.calls, **amounts}
        results.append("phases", {"run_id": run_id, **row})
    return {
        "status": status,
        "reason": reason,
        **{key.removesuffix("_text"): getattr(config, key) for key in CONFIGURED},
        **(_measured(outcome) if job.clock.phases else {"prepare_s": job.clock.prepare_s}),
        "peak_rss_bytes": outcome.peak_rss_bytes,
        "machine": env.machine(),
        "started_at": started_at,
        "notes": "; ".join(dict.fromkeys([*job.notes, *outcome.notes])),
    }


def _train(
    config: RunConfig, data: PreparedSet, job: Job, outcome: Outcome, recorder: FileRecorder
) -> tuple[str, str, str]:
    """Run the loop. How it ended: status, reason in a sentence, traceback where it crashed."""
    from baselines.model import check_fits
    from bench.loop import train
    from bench.outcome import Diverged

    system = None
    try:
        try:
            with interrupts.allowed():
                check_fits(job.model, job.schema)
                system = load_system(config.system).build(job)
                train(
                    job,
                    system,
                    outcome,
                    recorder,
                    test=data.test,
                    eval_every=config.eval_every,
                    warmup_steps=config.warmup_steps,
                    window_steps=config.window_steps,
                )
        finally:
            if system:
                outcome.peak_rss_bytes = _peak_rss_bytes()
                system.placement.close()
    except Diverged as error:
        return "diverged", str(error) or "the loss is no longer a finite number; try a smaller --lr", ""
    except KeyboardInterrupt:
        return "interrupted", f"stopped by Ctrl-C or a signal after {outcome.samples_seen:,} samples", ""
    except UserError as error:
        return "failed" if system else "skipped", str(error), ""
    except Exception as error:  # whatever a system raises ends its run, not the comparison
        first = (str(error).splitlines() or [""])[0]
        return "failed", f"{type(error).__name__}: {first} (error.txt in the run's folder)", traceback.format_exc()
    return "done", "", ""


def _measured(outcome: Outcome) -> dict[str, Any]:
    from baselines.clock import MAIN
    from bench.loop import DATA_WAIT

    clock: Clock = outcome.clock
    train_s = clock.train_s
    waited = clock.phases.get((MAIN, DATA_WAIT))
    return {
        **{key: getattr(outcome, key) for key in MEASURED},
        **{key: clock.totals.get(key, 0) for key in NEVER_COUNTED_IS_ZERO},
        **{key: clock.totals.get(key) for key in COUNTED},
        "prepare_s": clock.prepare_s,
        "train_s": train_s,
        "data_wait_s": waited.seconds if waited else None,
        "samples_per_s": outcome.samples_seen / train_s if train_s > 0 else None,
    }


@dataclass(frozen=True)
class FileRecorder:
    """Writes what the loop learns into steps.csv, evals.csv and decisions.csv as soon as it is known."""

    results: Results
    run_id: str
    meter: Progress

    def step(self, **window: Any) -> None:
        """A window of steps."""
        self.results.append("steps", {"run_id": self.run_id, **window})

    def eval(self, **point: Any) -> None:
        """An evaluation on the test split."""
        self.results.append("evals", {"run_id": self.run_id, **point})

    def decision(self, **row: Any) -> None:
        """What Slipstream decided in an epoch."""
        self.results.append("decisions", {"run_id": self.run_id, **row})

    def progress(self, samples_seen: int, samples_total: int, train_s: float, loss: float) -> None:
        """Shown to whoever watches."""
        self.meter.update(samples_seen, samples_total, train_s, loss)


def _reset_peak_rss() -> None:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:  # then the peak is that of the whole process
        return


def _peak_rss_bytes() -> int | None:
    """Peak memory of this process and of those that a system has started."""
    import psutil

    pids = ["self", *(str(child.pid) for child in psutil.Process().children(recursive=True))]
    peaks = [peak for pid in pids if (peak := peak_of(pid)) is not None]
    if not peaks:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return sum(peaks)


def peak_of(pid: str) -> int | None:
    """The most memory in bytes that a process has taken; None where the system does not say."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), None)
