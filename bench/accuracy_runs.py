"""Trainings whose accuracy was followed over time: kept in a JSON lines file, and what documents say of them."""

import bisect
import json
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

from weir_api import Api  # noqa: E402  (needs the path above)


class Runs:
    """All runs so far, each a dictionary with the values of `keys`, which name a training, and its figures. A run has
    "accuracy": [[seconds, accuracy], ...], each evaluation once."""

    def __init__(self, path: Path, keys: tuple[str, ...]):
        self.path = path
        self.keys = keys
        self.all = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def of(self, **wanted: object) -> list[dict]:
        return [run for run in self.all if all(run[name] == value for name, value in wanted.items())]

    def add(self, run: dict) -> None:
        """Takes the place of an earlier run of the same training."""
        same = [it for it in self.all if all(it[name] == run[name] for name in self.keys)]
        self.all = [it for it in self.all if it not in same] + [run]
        new = self.path.with_suffix(".new")
        new.write_text("".join(json.dumps(it) + "\n" for it in self.all))
        new.replace(self.path)


def over_time(api: Api, job_id: str, name: str, worker: int | None = None) -> list[tuple[float, float]]:
    """All points of a metric so far: seconds since the first step, value; of the whole job unless a worker is named."""
    chosen = "job" if worker is None else str(worker)
    found = api.get(f"/api/v1/jobs/{job_id}/metrics?name={name}&worker={chosen}&x=wall&points=all")["series"]
    return [(point[0], point[3]) for point in (found[0]["points"] if found else [])]


def mean_over_time(points: list[tuple[float, float]]) -> float:
    """Of (seconds, value), where each value holds from the point before until its own; 0 if there is no time."""
    total, before = 0.0, 0.0
    for second, value in points:
        total += value * (second - before)
        before = second
    return total / before if before > 0 else 0


def accuracy_of(api: Api, job_id: str) -> list[list[float]]:
    """What a job's evaluations have shown so far: seconds since its first step, accuracy."""
    points = over_time(api, job_id, "accuracy")
    # That of the end is there twice if one was due then.
    return list({second: [round(second, 2), round(accuracy, 4)] for second, accuracy in points}.values())


def seconds_to(points: list[list[float]], target: float) -> float | None:
    """When the mean of three evaluations in a row was as high for the first time: a single one may be luck."""
    for n in range(2, len(points)):
        if statistics.mean(accuracy for _, accuracy in points[n - 2:n + 1]) >= target:
            return points[n][0]
    return None


def accuracy_at(points: list[list[float]], second: float) -> float | None:
    """That of the newest evaluation by then."""
    n = bisect.bisect_right([wall for wall, _ in points], second)
    return points[n - 1][1] if n else None


def end_of(points: list[list[float]]) -> float:
    """The mean of the last three; 0 if there is none."""
    return statistics.mean(accuracy for _, accuracy in points[-3:]) if points else 0


def spread(values: list[float], form: str) -> str:
    """The median, and the smallest and the largest of several."""
    middle = f"{statistics.median(values):{form}}"
    return f"{middle} ({min(values):{form}} to {max(values):{form}})" if len(values) > 1 else middle


def listed(words: list[str]) -> str:
    return ", ".join(words[:-1]) + f" and {words[-1]}" if len(words) > 1 else words[0]


def curves(runs_by_name: dict[str, list[dict]], seconds: list[float]) -> tuple[dict, dict]:
    """For plots.Lines: the median of the runs' accuracies in % at those moments, and the smallest and the largest. A
    curve ends where the first of its runs does."""
    lines: dict[str, list] = {}
    bands: dict[str, list] = {}
    for name, runs in runs_by_name.items():
        ends = min((run["accuracy"][-1][0] for run in runs if run["accuracy"]), default=0)
        for second in seconds:
            values = [100 * a for run in runs if (a := accuracy_at(run["accuracy"], second)) is not None]
            if second <= ends and values and len(values) == len(runs):
                lines.setdefault(name, []).append((second, statistics.median(values)))
                bands.setdefault(name, []).append((second, min(values), max(values)))
    return lines, bands
