"""The jobs of `make gpu-test`, through head, node and workers: on the GPU they come to the processor's accuracy."""

import json
import os
import shutil
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "system"))

from cluster import Cluster  # noqa: E402  (needs the path above)
from weir_api import ENDED, poll  # noqa: E402

NODE = "gpu-node"
Report = Callable[[str, str | None], None]

# How far apart the accuracies may be: roundings differ from the first step on, and what becomes of them depends on the
# training. More than other seeds make of the same training, and less than a training with a wrong gradient.
LENET_BOUND = 0.02
RESNET_BOUND = 0.04


def lenet(compression: dict) -> dict:
    return {"model": {"name": "lenet"}, "compression": compression,
            "training": {"epochs": 10, "max_steps": 600, "batch_size": 32, "seed": 7,
                         "optimizer": {"name": "sgd", "lr": 0.02, "momentum": 0.9}}}


def resnet() -> dict:
    return {"model": {"name": "resnet20"}, "compression": {"name": "none"},
            "training": {"epochs": 10, "max_steps": 200, "batch_size": 64, "seed": 7, "lr_schedule": {"name": "cosine"},
                         "optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9}}}


JOBS = {"lenet_none": (lenet({"name": "none"}), LENET_BOUND), "lenet_dgc": (lenet({"name": "dgc"}), LENET_BOUND),
        "resnet20_none": (resnet(), RESNET_BOUND)}


class Node:
    """A head and one node, which offers the GPU if it has one, with the data of the jobs."""

    def __init__(self, images: Path | None, nccl: str | None):
        self.cluster = Cluster()
        if nccl:
            paths = [nccl, os.environ.get("LD_LIBRARY_PATH", "")]
            self.cluster.environment["LD_LIBRARY_PATH"] = ":".join(filter(None, paths))
        self.dataset: dict = {"name": "fashion-mnist"}
        if images is not None:
            self.dataset["path"] = str(images)
        elif not Path("/usr/share/datasets/fashion-mnist").is_dir():
            self.dataset = {"name": "synthetic",
                            "params": {"train_examples": 20000, "test_examples": 4000, "noise": 0.8}}
        self.cluster.start({NODE: float(os.cpu_count() or 1)})
        self.api = self.cluster.api

    def submit(self, name: str, spec: dict, workers: int, each: dict) -> str:
        resources = {"workers": workers, "per_worker": each}
        return self.api.submit({"name": name, "dataset": self.dataset, **spec, "resources": resources})["id"]

    def ended(self, job: str, seconds: float) -> dict:
        return self.api.wait_job(job, lambda found: found["state"] in ENDED, seconds, f"job {job} ends")

    def log(self, job: str) -> str:
        return self.api.get(f"/api/v1/jobs/{job}/logs?worker=0&limit=1000000")["text"]

    def close(self) -> list[str]:
        wrong = self.cluster.close()
        shutil.rmtree(self.cluster.folder, ignore_errors=True)
        return wrong


def train(node: Node, name: str, job: str, seconds: float, device: str) -> tuple[dict | None, str | None]:
    """The figures of a job, or what is wrong with it."""
    try:
        found = node.ended(job, seconds)
    except TimeoutError as late:
        return None, str(late)
    if found["state"] != "SUCCEEDED":
        return None, f"{found['state']}: {found['reason']}"
    if (f"computes on {device}" in node.log(job)) != (device != "cpu"):
        return None, f"it did not compute on {device}"
    summary = found["summary"]
    return {"job": name, "device": device, "dataset": node.dataset["name"], "accuracy": summary["accuracy"],
            "first_step_seconds": summary["first_step_seconds"], "bytes_sent": summary["bytes_sent"]}, None


def as_on_the_processor(node: Node, report: Report, left: Callable[[float], float]) -> list[dict]:
    """All jobs at once, each on the GPU and on the processor."""
    cores = max(1, (os.cpu_count() or 1) // 8)
    on_gpu = {name: node.submit(name, spec, 2, {"cpu": 1, "gpu": 1 / 8}) for name, (spec, _) in JOBS.items()}
    on_cpu = {name: node.submit(name, spec, 2, {"cpu": cores}) for name, (spec, _) in JOBS.items()}
    figures = []
    for name, (_, bound) in JOBS.items():
        there, wrong = train(node, name, on_gpu[name], left(180), "cuda:0")
        here, wrong_here = train(node, name, on_cpu[name], left(240), "cpu")
        figures += [found for found in (there, here) if found]
        if there and here and abs(there["accuracy"] - here["accuracy"]) > bound:
            wrong = f"accuracy {there['accuracy']:.4f}, on the processor {here['accuracy']:.4f}"
        report(f"jobs.{name}_on_the_gpu_as_on_the_processor", wrong or wrong_here)
    return figures


def what_does_not_fit(node: Node) -> str | None:
    """A batch whose first layer alone needs 256 GiB."""
    spec = {"model": {"name": "resnet20", "params": {"width": 256}},
            "dataset": {"name": "synthetic", "params": {"height": 64, "width": 64, "train_examples": 65536}},
            "training": {"max_steps": 1, "batch_size": 65536}, "fault_tolerance": {"max_restarts": 0}}
    found = node.ended(node.submit("too-large", spec, 1, {"cpu": 1, "gpu": 1}), 90)
    said = "has too little memory for 65536 examples at a time" in found["reason"]
    return None if found["state"] == "FAILED" and said else f"{found['state']}: {found['reason']}"


def doctor(node: Node) -> str | None:
    """Driver, GPU, LibTorch for CUDA, cuDNN and NCCL are all found."""
    found = json.loads(node.cluster.run("doctor", "--json").stdout)["checks"]
    levels = {check["what"]: check for check in found}
    for what in ("NVIDIA driver", "GPU 0", "training", "NCCL"):
        if levels.get(what, {}).get("level") != "ok":
            return f"{what}: {levels.get(what, 'nothing is said of it')}"
    return None


def metrics(node: Node) -> str | None:
    """What the driver says of the GPU is shown."""
    def shown() -> bool:
        gpus = node.api.nodes()[NODE]["gpus"]
        known = ("memory_used_bytes", "power_watts", "utilization")
        return bool(gpus) and all(gpus[0][reading] is not None for reading in known)

    poll(shown, 30, lambda: f"no readings: {node.api.nodes()[NODE]['gpus']}")
    return None


def step_of_resnet50(node: Node, precision: str, left: Callable[[float], float]) -> list[dict]:
    """Seconds of a step with and without dgc, over that of local training in the same precision: of one worker, which
    has the GPU to itself, codes what it would send and decodes it again, and of two side by side on the GPU, which
    exchange."""
    steps = 40
    common = {"model": {"name": "resnet", "params": {"depth": 50}},
              "dataset": {"name": "synthetic",
                          "params": {"height": 224, "width": 224, "train_examples": 512, "test_examples": 64}}}
    each = {"cpu": 1, "gpu": 1 / 8}

    def spec(mode: str, compression: dict) -> dict:
        return {**common, "compression": compression,
                "training": {"mode": mode, "epochs": steps, "max_steps": steps, "batch_size": 64,
                             "precision": precision, "optimizer": {"name": "sgd", "lr": 0.01}}}

    def seconds(job: str) -> float:
        ended = node.ended(job, left(120))
        if ended["state"] != "SUCCEEDED":
            raise AssertionError(f"{ended['state']}: {ended['reason']}")
        points = node.api.series(job, "step_seconds")
        return statistics.median(last for step, _, _, last in points if step > steps / 4)

    figures = []
    for workers in (1, 2):
        alone = [node.submit(f"alone{i}", spec("local", {"name": "none"}), 1, each) for i in range(workers)]
        alone_seconds = max([seconds(job) for job in alone])
        for compression in ({"name": "none"}, {"name": "dgc", "params": {"warmup_epochs": 0}}):
            together = seconds(node.submit("together", spec("sync", compression), workers, each))
            figures.append({"step": f"resnet50, {workers} workers on one GPU, batch of 64 each",
                            "precision": precision, "compression": compression["name"], "step_seconds": together,
                            "alone_seconds": alone_seconds, "share": together / alone_seconds})
    return figures


def on_the_processor(node: Node, report: Report, left: Callable[[float], float]) -> list[dict]:
    """Where there is no GPU: that this build trains at all."""
    spec = lenet({"name": "dgc", "params": {"warmup_epochs": 0}})
    spec["training"]["max_steps"] = 40
    found, wrong = train(node, "lenet_dgc", node.submit("lenet_dgc", spec, 1, {"cpu": 1}), left(400), "cpu")
    report("jobs.lenet_dgc_on_the_processor", wrong)
    return [found] if found else []


def run_jobs(report: Report, left: Callable[[float], float], images: Path | None, nccl: str | None,
             on_gpu: bool) -> list[dict]:
    """`report`: told each test's name and problem. `left`: seconds, of so many at most. Returns figures."""
    try:
        node = Node(images, nccl)
    except (AssertionError, TimeoutError, OSError) as problem:
        report("jobs.head_and_node_start", str(problem))
        return []
    figures: list[dict] = []
    try:
        if not on_gpu:
            return on_the_processor(node, report, left)
        figures = as_on_the_processor(node, report, left)
        for name, test in (("a_batch_that_does_not_fit_fails_with_its_size", what_does_not_fit),
                           ("the_doctor_finds_all", doctor), ("readings_of_the_gpu", metrics)):
            try:
                problem = test(node)
            except Exception as thrown:  # of one test, whatever it is: the others shall run
                problem = f"{type(thrown).__name__}: {thrown}"
            report(f"jobs.{name}", problem)
        for precision, name in (("float32", "step_of_resnet50"), ("bfloat16", "step_of_resnet50_in_bfloat16")):
            problem = None
            try:
                figures += step_of_resnet50(node, precision, left)
            except (AssertionError, TimeoutError, statistics.StatisticsError) as thrown:
                problem = str(thrown)
            report(f"jobs.{name}", problem)
    finally:
        wrong = node.close()
        report("jobs.nothing_is_left_behind", "; ".join(wrong) or None)
    return figures
