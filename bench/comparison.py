"""The runs of `make compare` and the document that is made from them."""

import json
import os
import statistics
from dataclasses import asdict, dataclass, field
from pathlib import Path

BASELINE = "bf16"  # what people train with today: ratios and times are given against it


@dataclass
class Training:
    """A model with the trainings that every compressor goes through."""
    title: str
    model: dict
    steps: int
    rates: list[float]  # learning rates that a compressor may choose from
    text: str


@dataclass(frozen=True)
class Run:
    """One training. `metrics` is empty where it failed; `error` then says why."""
    model: str  # key of the training
    compressor: str
    memory: str
    lr: float
    seed: int
    metrics: dict = field(default_factory=dict, hash=False)
    error: str = ""


class Runs:
    """All runs so far, in a JSON lines file to which each is added when it ends."""

    def __init__(self, path: Path):
        self.path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self.all = [Run(**json.loads(line)) for line in lines]

    def add(self, run: Run) -> None:
        """Takes the place of an earlier run of the same training."""
        same = (run.model, run.compressor, run.lr, run.seed)
        self.forget(lambda it: (it.model, it.compressor, it.lr, it.seed) == same)
        self.all.append(run)
        self.write()

    def forget(self, which) -> None:
        self.all = [it for it in self.all if not which(it)]

    def write(self) -> None:
        new = self.path.with_suffix(".new")
        new.write_text("".join(json.dumps(asdict(it)) + "\n" for it in self.all))
        new.replace(self.path)

    def find(self, model: str, compressor: str, lr: float, seed: int) -> Run | None:
        return next((it for it in self.all
                     if (it.model, it.compressor, it.lr, it.seed) == (model, compressor, lr, seed)), None)

    def of(self, model: str, compressor: str, lr: float, seeds: list[int]) -> list[Run]:
        found = [self.find(model, compressor, lr, seed) for seed in seeds]
        return [it for it in found if it is not None]


def best_rate(runs: list[Run]) -> float | None:
    """The learning rate with the highest accuracy; None if all failed."""
    good = [it for it in runs if not it.error]
    return max(good, key=lambda it: it.metrics["accuracy"]).lr if good else None


def significant(value: float, digits: int = 3) -> str:
    """Plain, never with an exponent: 1234, 12.3, 0.0123."""
    text = f"{value:.{digits}g}"
    return f"{float(text):,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{float(text):f}".rstrip("0").rstrip(".")


def percent(share: float) -> str:
    return f"{100 * share:.1f}"


HEAD = ("| compressor | memory | rate | accuracy, % | lowest to highest | against bf16 | sent per step | times smaller "
        "than fp32 | than bf16 | step | of bf16's | encode | decode | wait |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
COLUMNS = HEAD.count("|", 0, HEAD.index("\n")) - 1


def median_of(runs: list[Run], metric: str) -> float:
    return statistics.median(it.metrics[metric] for it in runs)


def row_of(runs: list[Run], baseline: list[Run]) -> str:
    """`runs` are those of one compressor at its learning rate, one a seed, not all failed."""
    good = [it for it in runs if not it.error]
    accuracies = [it.metrics["accuracy"] for it in good]
    first = good[0]
    cells = [f"`{first.compressor}`", f"`{first.memory}`", f"{first.lr:g}", percent(statistics.mean(accuracies)),
             f"{percent(min(accuracies))} to {percent(max(accuracies))}"]
    if len(good) < len(runs):
        cells[-1] += f"; {len(runs) - len(good)} of {len(runs)} failed"
    same_seed = {it.seed: it for it in baseline if not it.error}
    pairs = [(it, same_seed[it.seed]) for it in good if it.seed in same_seed]
    gains = [a.metrics["accuracy"] - b.metrics["accuracy"] for a, b in pairs]
    cells.append(f"{100 * statistics.mean(gains):+.1f}" if gains else "")
    cells.append(f"{significant(median_of(good, 'bytes_sent_per_step') / 1e3)} kB")
    cells.append(significant(median_of(good, "times_smaller")))
    smaller = [b.metrics["bytes_sent_per_step"] / a.metrics["bytes_sent_per_step"] for a, b in pairs]
    cells.append(significant(statistics.median(smaller)) if smaller else "")
    cells.append(f"{significant(1e3 * median_of(good, 'step_seconds_p50'))} ms")
    # Both were measured in the same pass over the catalog, minutes apart.
    slower = [a.metrics["step_seconds_p50"] / b.metrics["step_seconds_p50"] for a, b in pairs]
    cells.append(f"{statistics.median(slower):.2f}" if slower else "")
    parts = [median_of(good, f"{part}_seconds_p50") for part in ("encode", "decode", "wait")]
    cells += [f"{significant(1e3 * seconds)} ms" for seconds in parts]
    return "| " + " | ".join(cells) + " |"


def failed_row(run: Run) -> str:
    shown = " ".join(run.error.split()).replace("|", "/")
    shown = shown if len(shown) <= 200 else shown[:197] + "..."
    return f"| `{run.compressor}` | `{run.memory}` | | failed: {shown} |" + " |" * (COLUMNS - 4)


def wrapped(text: str, width: int = 120) -> str:
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = ""
        line += (" " if line else "") + word
    return "\n".join(lines + [line])


def tried_by(runs: Runs, key: str, name: str, choosing: int) -> list[Run]:
    """The runs by which a compressor chooses its learning rate."""
    return [it for it in runs.all if (it.model, it.compressor, it.seed) == (key, name, choosing)]


def table(runs: Runs, key: str, order: list[str], choosing: int, seeds: list[int]) -> list[str]:
    """A row for each compressor of `order` that was run."""
    def chosen(name: str) -> list[Run]:
        tried = tried_by(runs, key, name, choosing)
        rate = best_rate(tried)
        return tried[:1] if rate is None else runs.of(key, name, rate, seeds)

    baseline = chosen(BASELINE)
    rows = []
    for name in order:
        of_name = chosen(name)
        if not of_name:
            continue
        failed = all(it.error for it in of_name)
        rows.append(failed_row(of_name[0]) if failed else row_of(of_name, baseline))
    return rows


def at_the_ends(runs: Runs, key: str, order: list[str], choosing: int) -> str:
    """Which compressors have chosen a learning rate at an end of their list."""
    ends = {"lowest": [], "highest": []}
    for name in order:
        tried = tried_by(runs, key, name, choosing)
        rate = best_rate(tried)
        rates = [it.lr for it in tried]
        if rate is not None and rate in (min(rates), max(rates)):
            ends["lowest" if rate == min(rates) else "highest"].append(f"`{name}`")
    parts = [f"the {end} rate of its list was the best for {', '.join(names)}" for end, names in ends.items() if names]
    if not parts:
        return ""
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}. For these a better one may lie beyond the list."


def write_document(path: Path, introduction: str, trainings: dict[str, Training], runs: Runs, order: list[str],
                   choosing: int, seeds: list[int]) -> None:
    text = "# Comparison of compressors\n\n" + "\n\n".join(map(wrapped, introduction.strip().split("\n\n"))) + "\n"
    for key, training in trainings.items():
        rows = table(runs, key, order, choosing, seeds)
        text += f"\n## {training.title}\n\n{wrapped(training.text)}\n"
        if rows:
            text += "\n" + "\n".join([HEAD] + rows) + "\n"
        if ends := at_the_ends(runs, key, order, choosing):
            text += f"\n{wrapped(ends)}\n"
    new = path.with_suffix(".new")
    new.write_text(text)
    os.replace(new, path)
