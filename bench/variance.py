#!/usr/bin/env python3
"""Variance of ATOMO, QSGD and TernGrad on gradients of three models, by `weir-worker bench variance`, and ATOMO's
budgets: prints the two tables that docs/reproduction.md has.

    bench/variance.py [--cases resnet20,lenet,vgg11] [--cifar FOLDER] [--runs FILE]

The rows are kept in a JSON lines file, docs/variance.jsonl by default, those of a case as soon as all of them are
there, and are not measured again. Two of the cases need the binary version of CIFAR-10."""

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from choices import several_of

ROOT = Path(__file__).resolve().parent.parent
WORKER = ROOT / "build" / "release" / "bin" / "weir-worker"


@dataclass
class Case:
    title: str
    model: str
    params: dict
    dataset: str
    steps: int
    batch: int
    repetitions: int = 10

    def command(self, cifar: Path | None) -> list[str]:
        path = ["--dataset-path", str(cifar)] if self.dataset == "cifar10" else []
        return [str(WORKER), "bench", "variance", "--json", "--model", self.model, "--model-params",
                json.dumps(self.params), "--dataset", self.dataset, *path, "--steps", str(self.steps),
                "--batch-size", str(self.batch), "--repetitions", str(self.repetitions)]


CASES = {
    "resnet20": Case("ResNet-20, CIFAR-10", "resnet20", {}, "cifar10", 200, 128),
    "lenet": Case("LeNet, Fashion-MNIST", "lenet", {}, "fashion-mnist", 200, 128),
    "vgg11": Case("VGG-11, CIFAR-10", "vgg", {"depth": 11, "small_images": True, "batch_norm": True}, "cifar10", 40, 64,
                  4),
}
BUDGETS = [1, 2, 3, 4, 6, 8]
OTHERS = {"qsgd, bits 1": "QSGD, 1 bit", "qsgd, bits 2": "QSGD, 2 bits", "qsgd, bits 4": "QSGD, 4 bits",
          "qsgd, bits 8": "QSGD, 8 bits", "terngrad": "TernGrad", "terngrad, not clipped": "TernGrad, not clipped"}

# Of a case, what its rows say by their names.
Metrics = dict[str, dict]


def read(path: Path) -> dict[str, Metrics]:
    found: dict[str, Metrics] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        row = json.loads(line)
        found.setdefault(row["of"], {})[row["name"]] = row["metrics"]
    return found


def measure(case: str, cifar: Path | None, path: Path) -> None:
    print(f"{case}: ...", file=sys.stderr, flush=True)
    done = subprocess.run(CASES[case].command(cifar), stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"bench/variance.py: {case}: weir-worker ended with {done.returncode}")
    with path.open("a") as file:
        file.writelines(json.dumps({"of": case} | json.loads(line)) + "\n" for line in done.stdout.splitlines())


def smaller(metrics: dict) -> str:
    return f"{metrics['dense_bytes'] / metrics['bytes']:.1f}"


def variance(metrics: dict) -> str:
    return f"{metrics['relative_variance']:.3g}"


def row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def beside_others(found: dict[str, Metrics]) -> str:
    lines = [row(["", "", *(CASES[case].title for case in found)]), "|---" * (len(found) + 2) + "|"]
    for name, title in OTHERS.items():
        of_rows = {"times smaller": (name, smaller), "its variance": (name, variance),
                   "ATOMO's, singular values": (f"atomo svd, bytes of {name}", variance),
                   "ATOMO's, entries": (f"atomo entrywise, bytes of {name}", variance)}
        for n, (words, (of, form)) in enumerate(of_rows.items()):
            lines.append(row(["" if n else title, words, *(form(rows[of]) for rows in found.values())]))
    return "\n".join(lines)


def budgets(found: dict[str, Metrics]) -> str:
    heads = [head for case in found for head in (f"{CASES[case].title}: times smaller", "variance", "encode, ms")]
    lines = [row(["budget", *heads]), "|---" * (len(heads) + 1) + "|"]
    for budget in BUDGETS:
        of = [rows[f"atomo svd, budget {budget}"] for rows in found.values()]
        lines.append(row([str(budget), *(cell for m in of for cell in
                                         (smaller(m), variance(m), f"{1000 * m['encode_seconds']:.1f}"))]))
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=several_of(CASES), default=list(CASES), help=f"of {','.join(CASES)}")
    parser.add_argument("--cifar", type=Path, help="a folder with the binary version of CIFAR-10")
    parser.add_argument("--runs", type=Path, default=ROOT / "docs" / "variance.jsonl")
    options = parser.parse_args()
    todo = [case for case in options.cases if case not in read(options.runs)]
    if without := [case for case in todo if CASES[case].dataset == "cifar10" and options.cifar is None]:
        sys.exit(f"bench/variance.py: {', '.join(without)}: needs --cifar")
    if todo and not WORKER.exists():
        sys.exit(f"bench/variance.py: {WORKER} is missing: run `make build`")
    for case in todo:
        measure(case, options.cifar, options.runs)
    kept = read(options.runs)
    found = {case: kept[case] for case in CASES if case in kept}
    print(beside_others(found), budgets(found), sep="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
