#!/usr/bin/env python3
"""Simulates training steps of many workers on many networks and writes docs/scaling.md and its plot.

    bench/scaling.py [--keep-costs] [--document-only] [--threads N] [OPTION OF weir-worker bench scaling ...]
    bench/scaling.py --filter '^costs'

The rows are in build/scaling.jsonl, each as soon as it is there, and in docs/scaling.jsonl once all are. --keep-costs
takes what coding takes from the rows of the last run instead of measuring it again. With a filter only some rows are
made: they stay in build/, and docs/ as it is."""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from comparison import significant, wrapped
from scaling_plot import write_plot

ROOT = Path(__file__).resolve().parent.parent
ROWS = ROOT / "docs" / "scaling.jsonl"
DOCUMENT = ROOT / "docs" / "scaling.md"
PLOT = ROOT / "docs" / "images" / "scaling.svg"
WORKER = ROOT / "build" / "release" / "bin" / "weir-worker"
NEW_ROWS = ROOT / "build" / ROWS.name

# Names of ways by compressor, in the order of the columns.
WAYS = {"none": "fp32", "bf16": "bf16", "dgc": "dgc", "qsgd": "qsgd", "terngrad": "terngrad", "signsgd": "signsgd",
        "powersgd": "powersgd"}
AUTO_OF = "dgc"  # the compressor of the job whose `auto` has a column and a line
MODELS = {"mlp": "MLP, 10.7 M parameters", "resnet50": "ResNet-50, 25.6 M parameters",
          "vgg16": "VGG-16, 138 M parameters"}
PLOTTED_LATENCY_MS = 1
GOAL = 1.10
MANY_RANKS = 64  # from which on the model's predictions are compared with simulations

INTRODUCTION = """
Made by `make scaling`. Nobody here has a thousand machines: the networks are simulated, everything else is the
product's. In each cell every rank does what a worker's exchange does in a step: the backward pass completes the
buckets one after the other, one thread encodes, another decodes, two lanes and an urgent one carry the buckets, and
the production collectives send every message over a network with a clock of its own, in which each message takes the
latency of its link and the port of each rank carries so many bytes a second in each direction. A switch that is short
of bandwidth, lost packets and slow workers do not occur. Where packing the numbers of sums without loss saves more of
the line's time than it takes (decisions/0026), they take the share of their bytes that normally distributed ones
take: FLOAT32 of float32, BFLOAT16 of bfloat16. What encoding, decoding, copying, adding and packing take was
measured, on one core of a machine with two, the least of several times: seven for encoding and decoding, three for
copying, eight for adding and packing (the table below). The computation of a
step is assumed: COMPUTE, round numbers of the order that one accelerator takes for a batch; the same coding with less
computation, or the other way round, moves the limits between winners.

A cell has the step's time in milliseconds, and over which topology: the best one of ring, butterfly, tree and, where
the compressor fits, two_hop. On these networks the others that a job can name take the time of one of them: a group of
a power of two has no other binary blocks than a butterfly, hierarchical is that butterfly where each rank has a host of
its own, and parameter_server with a server on each rank, and split_gather, exchange the messages of two_hop. multi_hop
is left out, which has the bytes of two_hop in more steps. The compressors
have their defaults, after their warm-up. A payload that would be longer than the dense tensor, because all ranks gather
all, goes dense, as in a job.
`~`: the step would take more than FRAMES million frames to simulate, so it is the prediction of the model that `auto`
plans with (latency, bytes and additions of each topology are held against the simulated network by `Costs` in
tests/collectives). A plan of `auto` that is predicted to lose by more than 5 % is simulated all the same. **Bold**: the
fastest.

`auto` is that of a job with `AUTO`: of the plans that such a job would try, the one that it would follow. It may change
the size of the buckets, which is 25 MiB otherwise, to 100 MiB or less. The last column is the worst, over all
compressors, of the step with `auto` divided by the best that the same job could have named: the compressor, dense
float32 or dense bfloat16 over their best topologies. `signsgd` cannot go dense, which would change the scale of what it
learns: there it is compared with `signsgd`. A job without compression (`fp32`) is never rounded: there it is compared
with `fp32`.
"""


def load(path: Path) -> dict[str, dict]:
    return {row["name"]: row for row in map(json.loads, path.read_text().splitlines())}


def is_cell(name: str) -> bool:
    return not name.startswith("costs/")


def simulate(options: argparse.Namespace, more: list[str]) -> None:
    """The new rows."""
    command = [str(WORKER), "bench", "scaling", "--json", "--threads", str(options.threads), *more]
    if options.keep_costs:
        costs = ROOT / "build" / "scaling-costs.jsonl"
        kept = [row for name, row in load(ROWS).items() if not is_cell(name)]
        costs.write_text("".join(json.dumps(row) + "\n" for row in kept))
        command += ["--costs", str(costs)]
    if options.filter:
        command += ["--filter", options.filter]
    with NEW_ROWS.open("w") as rows:
        subprocess.run(command, stdout=rows, check=True)


def keep_rows() -> None:
    """The new rows take the place of those that the document is made from."""
    if not any(map(is_cell, load(NEW_ROWS))):
        raise ValueError(f"{NEW_ROWS.relative_to(ROOT)} has no cell")
    os.replace(NEW_ROWS, ROWS)


def seconds_text(step: dict) -> str:
    mark = "" if step["simulated"] else "~"
    return mark + significant(1e3 * step["seconds"])


def place_of(case: dict) -> str:
    return f"{case['ranks']:,} ranks, {case['gigabits']:g} Gbit/s, {case['latency_ms']:g} ms"


def worst_auto(cell: dict) -> tuple[float, str]:
    return max((way["auto_over_best_choice"], name) for name, way in cell["metrics"]["ways"].items())


def table(cells: list[dict]) -> list[str]:
    """A row for each number of ranks and link."""
    lines = ["| ranks | Gbit/s | ms | " + " | ".join(WAYS.values()) + " | auto | auto / best |",
             "|---" * (len(WAYS) + 5) + "|"]
    for cell in cells:
        case, ways = cell["case"], cell["metrics"]["ways"]
        steps = [ways[name]["fixed"] for name in WAYS] + [ways[AUTO_OF]["auto"]]
        least = min(step["seconds"] for step in steps)
        texts = []
        for i, step in enumerate(steps):
            shown = seconds_text(step)
            shown = f"**{shown}**" if step["seconds"] <= 1.005 * least else shown
            texts.append(f"{shown} {step['routes']}" if i < len(WAYS) else shown)
        texts.append(f"{worst_auto(cell)[0]:.2f}")
        place = f"| {case['ranks']:,} | {case['gigabits']:g} | {case['latency_ms']:g} | "
        lines.append(place + " | ".join(texts) + " |")
    return lines


def where_compression_loses(cells: list[dict]) -> list[str]:
    """A sentence for each compressor: against the faster of the dense forms."""
    lines = []
    for name in list(WAYS)[2:]:
        by_rate: dict[float, list[bool]] = {}
        worst = (0.0, "")
        for cell in cells:
            ways = cell["metrics"]["ways"]
            dense = min(ways["none"]["fixed"]["seconds"], ways["bf16"]["fixed"]["seconds"])
            ratio = ways[name]["fixed"]["seconds"] / dense
            by_rate.setdefault(cell["case"]["gigabits"], []).append(ratio > 1)
            worst = max(worst, (ratio, f"{MODELS[cell['case']['model']].split(',')[0]}, {place_of(cell['case'])}"))
        counts = ", ".join(f"{sum(lost)} of {len(lost)} cells at {rate:g} Gbit/s"
                           for rate, lost in sorted(by_rate.items()))
        words = f"`{name}` is slower than the faster of the dense forms in {counts}"
        lines.append(f"- {words}; at worst it takes {worst[0]:.2f} times as long ({worst[1]}).")
    return lines


def where_auto_loses(cells: list[dict]) -> list[str]:
    lines = ["| compressor of the job | cells above 1.10 | worst | where | its plan | median |",
             "|---|---|---|---|---|---|"]
    for name in WAYS:
        found = sorted(((cell["metrics"]["ways"][name]["auto_over_best_choice"], i) for i, cell in enumerate(cells)))
        ratio, worst = found[-1]
        case = cells[worst]["case"]
        plan = cells[worst]["metrics"]["ways"][name]["auto"]["routes"]
        where = f"{MODELS[case['model']].split(',')[0]}, {place_of(case)}"
        above = sum(it > GOAL for it, _ in found)
        lines.append(f"| `{name}` | {above} of {len(found)} | {ratio:.3f} | {where} | {plan} | "
                     f"{found[len(found) // 2][0]:.3f} |")
    return lines


def costs_table(rows: dict[str, dict]) -> list[str]:
    lines = ["| model | compressor | encode | decode of one payload | payload |", "|---|---|---|---|---|"]
    for model, title in MODELS.items():
        for name in list(WAYS)[1:]:
            if (row := rows.get(f"costs/{model}/{name}")) is not None:
                costs = row["metrics"]
                lines.append(f"| {title.split(',')[0]} | `{name}` | {significant(1e3 * costs['encode_seconds'])} ms | "
                             f"{significant(1e3 * costs['decode_seconds'])} ms | "
                             f"{significant(costs['payload_bytes'] / 1e3)} kB |")
    return lines


def about_predictions(cells: list[dict]) -> str:
    """How much of the tables is predicted, and how far predictions are from simulations of many ranks."""
    ratios, predicted = [], {}
    for cell in cells:
        ranks = cell["case"]["ranks"]
        for name, way in cell["metrics"]["ways"].items():
            predicted.setdefault(ranks, []).append(not way["fixed"]["simulated"])
            for step in (way["fixed"], way["auto"]):
                if ranks >= MANY_RANKS and step["simulated"] and "predicted_seconds" in step:
                    where = f"{MODELS[cell['case']['model']].split(',')[0]}, {place_of(cell['case'])}, {step['routes']}"
                    ratios.append((step["seconds"] / step["predicted_seconds"], f"`{name}`, {where}"))
    counts = ", ".join(f"{sum(marked)} of {len(marked)} with {ranks:,} ranks" for ranks, marked in predicted.items())
    if not ratios:
        return f"Predicted steps: {counts}."
    largest, where = max(ratios, key=lambda it: max(it[0], 1 / it[0]))
    return (f"Predicted steps: {counts}. With {MANY_RANKS} ranks or more {len(ratios)} steps of the tables were "
            f"simulated, and took {min(ratios)[0]:.2f} to {max(ratios)[0]:.2f} of what the model had predicted, "
            f"{statistics.median(ratio for ratio, _ in ratios):.2f} at the median. The largest difference: "
            f"{largest:.2f} ({where}).")


def write_document(rows: dict[str, dict], frames_max: float) -> None:
    cells = [row for name, row in rows.items() if is_cell(name)]
    order = list(MODELS)
    cells.sort(key=lambda cell: (order.index(cell["case"]["model"]), cell["case"]["ranks"], cell["case"]["gigabits"],
                                 cell["case"]["latency_ms"]))
    computing = {cell["case"]["model"]: 1e3 * cell["case"]["compute_seconds"] for cell in cells}
    compute = ", ".join(f"{ms:g} ms for {MODELS[model].split(',')[0]}" for model, ms in computing.items())
    text = INTRODUCTION.strip().replace("COMPUTE", compute).replace("AUTO", AUTO_OF)
    text = text.replace("FRAMES", f"{frames_max / 1e6:g}")
    memory = rows["costs/memory"]["metrics"]
    text = text.replace("FLOAT32", f"{memory['packed_share_float32']:g}")
    text = text.replace("BFLOAT16", f"{memory['packed_share_bfloat16']:g}")
    copying = (f"Copying into and out of a bucket: {1e9 * memory['copy_seconds_per_byte']:.3f} ns a byte each; adding "
               f"what arrives: {1e9 * memory['combine_seconds_per_byte']:.3f} ns a byte; packing numbers: "
               f"{1e9 * memory['pack_seconds_per_byte']:.3f}, and unpacking them "
               f"{1e9 * memory['unpack_seconds_per_byte']:.3f} ns a byte. Encoding includes what the memory does.")
    parts = ["# Past this machine: simulated networks", *map(wrapped, text.split("\n\n")),
             wrapped(about_predictions(cells)),
             f"![Step times at {PLOTTED_LATENCY_MS} ms](images/scaling.svg)",
             "## What coding takes", wrapped(copying), "\n".join(costs_table(rows)),
             "## Where `auto` loses", "\n".join(where_auto_loses(cells)),
             "## Where compression loses", "\n".join(where_compression_loses(cells))]
    for model, title in MODELS.items():
        if of_model := [cell for cell in cells if cell["case"]["model"] == model]:
            parts += [f"## {title}", "\n".join(table(of_model))]
    new = DOCUMENT.with_suffix(".new")
    new.write_text("\n\n".join(parts) + "\n")
    os.replace(new, DOCUMENT)
    plot(cells)


def plot(cells: list[dict]) -> None:
    lines: dict = {}
    columns, models = [], []
    for cell in cells:
        case, ways = cell["case"], cell["metrics"]["ways"]
        if case["latency_ms"] != PLOTTED_LATENCY_MS:
            continue
        model, column = MODELS[case["model"]].split(",")[0], f"{case['gigabits']:g} Gbit/s"
        columns += [column] if column not in columns else []
        models += [model] if model not in models else []
        of_panel = lines.setdefault((model, column), {})
        for name, way in WAYS.items():
            of_panel.setdefault(way, []).append((case["ranks"], ways[name]["fixed"]["seconds"]))
        of_panel.setdefault("auto", []).append((case["ranks"], ways[AUTO_OF]["auto"]["seconds"]))
    if lines and all((model, column) in lines for model in models for column in columns):
        write_plot(PLOT, columns, models, lines, f"Time of a step over the number of workers, links of "
                                                 f"{PLOTTED_LATENCY_MS} ms; auto is that of a job with {AUTO_OF}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep-costs", action="store_true")
    parser.add_argument("--document-only", action="store_true")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--frames-max", type=float, default=1e7)
    parser.add_argument("--filter", help="a regular expression over the rows")
    options, more = parser.parse_known_args()
    try:
        if not options.document_only:
            simulate(options, ["--frames-max", str(int(options.frames_max)), *more])
            if options.filter:
                print(f"scaling: only some rows were wanted; they are in {NEW_ROWS.relative_to(ROOT)}", file=sys.stderr)
                return 0
            keep_rows()
    except KeyboardInterrupt:
        return 130
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        print(f"scaling: {error}", file=sys.stderr)
        return 1
    try:
        write_document(load(ROWS), options.frames_max)
    except KeyError as missing:
        print(f"scaling: {ROWS.relative_to(ROOT)} is of another version, without {missing}; run without "
              "--document-only", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
