"""GPUs of a node: those of a made libnvidia-ml.so.1, whose lines a running test changes. What computes in their place
is a device that LibTorch takes for one (tests/cuda/emulator/torch_device.cpp)."""

import json
import os
import socket
import unittest
from pathlib import Path

from cluster import BIN, LONG, PATIENCE, SystemTest, job
from weir_api import ApiError, poll

LIBRARY = BIN.parent / "tests" / "nvml"  # the folder with it
DEVICE = BIN.parent / "tests" / "emulated_gpu" / "libemulated_gpu.so"
FIRST = "GPU-00000000-aaaa-0000-0000-000000000001"
SECOND = "GPU-00000000-bbbb-0000-0000-000000000002"
KNOWN = "1073741824|43|512500|61|0|-"
UNKNOWN = "-|-|-|-|-|-"
# As the loader says it.
MISSING = ("echo 'weir-worker: error while loading shared libraries: libcudnn.so.9: cannot open shared object file: No "
           "such file or directory' >&2; exit 127")


def line(uuid: str, readings: str = KNOWN, kind: str = "GPU") -> str:
    return f"{kind} {uuid}|NVIDIA H200|150754820096|{readings}\n"


def visible_to(pid: int) -> str | None:
    """What a process was started with."""
    for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
        if entry.startswith(b"CUDA_VISIBLE_DEVICES="):
            return entry.decode().partition("=")[2]
    return None


class Gpus(SystemTest):
    def setUp(self):
        super().setUp()
        self.file = self.cluster.folder / "gpus"
        self.write(line(FIRST), line(SECOND))
        self.cluster.environment |= {"LD_LIBRARY_PATH": str(LIBRARY), "WEIR_FAKE_NVML": str(self.file)}
        self.cluster.environment.pop("CUDA_VISIBLE_DEVICES", None)

        self.worker = self.cluster.folder / "worker-with-gpu"
        self.worker.write_text(f'#!/bin/sh\nLD_PRELOAD={DEVICE} exec {BIN / "weir-worker"} "$@"\n')
        self.worker.chmod(0o755)

    def start(self, cpu: float) -> None:
        """A head and the node alpha, whose workers find a GPU if they may see one."""
        self.cluster.start_head()
        self.cluster.start_node("alpha", cpu, "--worker", self.worker)
        self.cluster.await_nodes("alpha")

    def log(self, job_id: str, rank: int = 0) -> str:
        return self.cluster.api.get(f"/api/v1/jobs/{job_id}/logs?worker={rank}&limit=1000000")["text"]

    def write(self, *lines: str) -> None:
        """All at once: a node may read it at any time."""
        new = self.file.with_suffix(".new")
        new.write_text("".join(lines))
        os.replace(new, self.file)

    def gpus(self, node: str = "alpha") -> list[dict]:
        return self.cluster.api.nodes()[node]["gpus"]

    def submit(self, workers: int, **each: float) -> str:
        resources = {"workers": workers, "per_worker": {"cpu": 1, **each}}
        return self.cluster.api.submit(job(steps=LONG, resources=resources))["id"]

    def trains(self, job_id: str) -> list[dict]:
        """The workers of a job, once all of them train."""
        return self.cluster.api.wait_step(job_id, 1)["workers"]

    def stop(self, job_id: str) -> None:
        self.cluster.api.call("POST", f"/api/v1/jobs/{job_id}/stop")
        self.cluster.api.wait_ended(job_id)
        self.cluster.await_idle("alpha")

    def test_shares_pack_one_gpu_and_each_worker_sees_what_it_has_booked(self):
        self.start(4)
        node = self.cluster.api.nodes()["alpha"]
        self.assertEqual(node["resources"]["gpu"], 2)
        self.assertEqual(node["labels"]["gpu_type"], "nvidia-h200")

        halves = self.submit(3, gpu=0.5)
        workers = self.trains(halves)
        self.assertEqual([visible_to(w["pid"]) for w in workers], [FIRST, FIRST, SECOND])
        self.assertEqual([w["gpus"] for w in workers], [[{"uuid": uuid, "share": 0.5}] for uuid in
                                                        (FIRST, FIRST, SECOND)])
        found = self.gpus()
        self.assertEqual([gpu["booked"] for gpu in found], [1, 0.5])
        self.assertEqual([[(w["job"], w["rank"]) for w in gpu["workers"]] for gpu in found],
                         [[(halves, 0), (halves, 1)], [(halves, 2)]])
        waits = self.submit(1, gpu=1)
        self.assertIn("node alpha lacks gpu (GPU 0 has 0 free, GPU 1 has 0.5 free; a worker needs a whole one)",
                      self.cluster.api.job(waits)["reason"])
        self.cluster.api.call("POST", f"/api/v1/jobs/{waits}/stop")
        self.stop(halves)

        whole = self.submit(1, gpu=2)
        self.assertEqual([visible_to(w["pid"]) for w in self.trains(whole)], [f"{FIRST},{SECOND}"])
        self.stop(whole)
        without = self.submit(1)
        self.assertEqual([visible_to(w["pid"]) for w in self.trains(without)], [""])
        self.stop(without)

    def test_a_job_trains_on_its_gpus_as_on_processors(self):
        self.start(2)
        api = self.cluster.api
        accuracies = []
        for each in ({"gpu": 1}, {}):
            spec = job(steps=20, compression={"name": "dgc", "params": {"warmup_epochs": 0}},
                       resources={"workers": 2, "per_worker": {"cpu": 1, **each}})
            ended = api.wait_ended(api.submit(spec)["id"])
            self.assertEqual(ended["state"], "SUCCEEDED", ended["reason"])
            accuracies.append(ended["summary"]["accuracy"])
            for rank in (0, 1):
                self.assertEqual("computes on privateuseone:0" in self.log(ended["id"], rank), bool(each))
        self.assertAlmostEqual(accuracies[0], accuracies[1], delta=0.02)  # sparse means are rounded in another way

    def test_nccl_is_refused_where_it_is_not(self):
        self.start(2)
        api = self.cluster.api
        over_nccl = {"exchange": {"topology": "nccl"}}
        for each, has in (({}, "none"), ({"gpu": 0.5}, "a part of one")):
            spec = job(resources={"workers": 2, "per_worker": {"cpu": 1, **each}}, **over_nccl)
            with self.assertRaises(ApiError) as refused:
                api.submit(spec)
            self.assertEqual([(error["pointer"], error["detail"]) for error in refused.exception.problem["errors"]],
                             [("/exchange/topology", '"nccl" works between GPUs, one for each worker, and a worker of '
                               f"the job has {has}: set resources.per_worker.gpu to 1")])
        # The emulated GPU is none for NCCL, whose library may be missing, too.
        spec = job(resources={"workers": 2, "per_worker": {"cpu": 1, "gpu": 1}}, **over_nccl)
        ended = api.wait_ended(api.submit(spec)["id"])
        self.assertEqual(ended["state"], "FAILED")
        self.assertRegex(ended["reason"], r'exchange\.topology "nccl": rank 0 \([^)]+\) cannot use NCCL: ')

    def test_a_worker_whose_libtorch_knows_no_gpu_says_so(self):
        self.cluster.start({"alpha": 2})
        ended = self.cluster.api.wait_ended(self.submit(1, gpu=1))
        self.assertEqual(ended["state"], "FAILED")
        self.assertIn("the LibTorch that this weir-worker was built with computes on processors only, and the job has "
                      f"booked GPU {FIRST}", ended["reason"])

    def test_too_little_memory_is_told_with_the_gpu_and_what_is_free(self):
        self.cluster.environment["WEIR_EMULATED_GPU_BYTES"] = "4096"
        self.start(2)
        ended = self.cluster.api.wait_ended(self.submit(1, gpu=0.5))
        self.assertEqual(ended["state"], "FAILED")
        self.assertRegex(ended["reason"], rf"GPU {FIRST} \(NVIDIA H200\) of node \S+ has too little memory for the "
                         r"\d+ bytes of the model's parameters: it was asked for \d+ bytes, and 139[.]40 of its "
                         r"140[.]40 GiB are free[.] Try a GPU with more memory or, where workers share this one, "
                         r"resources[.]per_worker[.]gpu 1")

    def test_readings_are_shown_and_unknown_ones_are_null(self):
        self.start(2)
        poll(lambda: self.gpus()[0]["utilization"] == 0.43, PATIENCE, lambda: f"no readings: {self.gpus()}")
        self.assertEqual({name: self.gpus()[0][name] for name in
                          ("memory_used_bytes", "power_watts", "temperature_celsius", "ecc_errors", "xid")},
                         {"memory_used_bytes": 1073741824, "power_watts": 512.5, "temperature_celsius": 61,
                          "ecc_errors": 0, "xid": None})
        metrics = self.cluster.api.request("GET", "/metrics")[2].decode()
        self.assertIn(f'weir_node_gpu_utilization_ratio{{node="alpha",gpu="0",uuid="{FIRST}"}} 0.43\n', metrics)
        self.write(line(FIRST, UNKNOWN), line(SECOND))
        poll(lambda: self.gpus()[0]["utilization"] is None, PATIENCE, lambda: f"still known: {self.gpus()}")
        self.assertEqual(self.gpus()[1]["utilization"], 0.43)

        self.write(line(FIRST), line(SECOND, kind="LOST"))
        poll(lambda: self.gpus()[1]["state"] == "lost", PATIENCE, lambda: f"not lost: {self.gpus()}")
        self.assertIsNone(self.gpus()[1]["utilization"])
        needs_both = self.submit(1, gpu=2)
        self.assertIn("node alpha lacks gpu (1, a worker needs 2; GPU 1 is lost)",
                      self.cluster.api.job(needs_both)["reason"])
        self.write(line(FIRST), line(SECOND))
        self.assertEqual([visible_to(w["pid"]) for w in self.trains(needs_both)], [f"{FIRST},{SECOND}"])

    def test_what_a_node_offers(self):
        self.cluster.start_head()
        self.cluster.start_node("most", 2, "--labels", "gpu_type=mine")
        self.cluster.environment["CUDA_VISIBLE_DEVICES"] = f"{SECOND},7"
        self.cluster.start_node("second")
        self.cluster.environment["CUDA_VISIBLE_DEVICES"] = ""
        self.cluster.start_node("none")
        self.cluster.await_nodes("most", "second", "none")
        self.assertEqual([[gpu["uuid"] for gpu in self.gpus(node)] for node in ("most", "second", "none")],
                         [[FIRST, SECOND], [SECOND], []])
        self.assertEqual(self.cluster.api.nodes()["most"]["labels"], {"gpu_type": "mine"})
        self.cluster.environment.pop("CUDA_VISIBLE_DEVICES")

        refused = self.cluster.run("node", "--head", self.cluster.control, "--resources", "gpu=3",
                                   WEIR_NODE_SECRET=self.cluster.node_secret)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("--resources: gpu=3 is more than this node can offer: this machine has 2 GPUs", refused.stderr)

    def test_the_doctor_says_what_is_there(self):
        found = self.cluster.run("doctor").stdout
        self.assertIn("ok   NVIDIA driver: 580.65.06, for CUDA up to 13.0\n", found)
        self.assertIn(f"ok   GPU 1: NVIDIA H200, 150.8 GB, {SECOND}\n", found)
        self.assertRegex(found, r"note training: LibTorch [0-9.]+, which computes on processors only")
        self.write("ERROR 18\n")
        found = self.cluster.run("doctor").stdout
        self.assertIn("GPU: none: the NVIDIA driver does not answer: Driver/library version mismatch", found)
        self.assertIn("restart the machine after an update", found)

    def doctor_of(self, worker_says: str) -> str:
        """What is found where weir-worker is a program that says that when it is asked for its devices."""
        worker = self.cluster.folder / "talking-worker"
        worker.write_text(f"#!/bin/sh\n{worker_says}\n")
        worker.chmod(0o755)
        return self.cluster.run("doctor", "--worker", worker).stdout

    def test_the_doctor_finds_what_the_worker_lacks(self):
        self.write("DRIVER 535.104.05|12020\n", line(FIRST))
        needs = {"libtorch": "2.11.0", "cuda": "13.0", "cudnn": "9.10.2", "nccl": "2.28.9", "devices": []}
        found = self.doctor_of(f"echo '{json.dumps(needs)}'; exit 1")
        here = socket.gethostname()
        self.assertIn(f"bad  NVIDIA driver: version 535.104.05 of {here} is too old: it is for CUDA up to 12.2, and "
                      "the LibTorch of weir-worker for CUDA 13.0, so that nothing computes on GPU 0 (NVIDIA H200)\n"
                      "     install a driver for CUDA 13.0 or newer", found)
        self.assertIn("note training: LibTorch 2.11.0 for CUDA 13.0, which computes on processors only", found)
        self.write(line(FIRST))
        found = self.doctor_of(f"echo '{json.dumps({**needs, 'devices': ['cuda:0']})}'")
        for good in ("NVIDIA driver: 580.65.06, for CUDA up to 13.0", "cuDNN: 9.10.2, with LibTorch",
                     "NCCL: version 2.28.9", "training: LibTorch 2.11.0 for CUDA 13.0, which computes on processors, "
                     "cuda:0"):
            self.assertIn(f"ok   {good}\n", found)
        self.assertNotIn("kernels", found)
        old = {**needs, "devices": ["cuda:0"], "kernels_problem": "no kernels for a GPU of compute capability 7.5"}
        self.assertIn("note kernels: no kernels for a GPU of compute capability 7.5\n     jobs on this GPU compress on "
                      "processors", self.doctor_of(f"echo '{json.dumps(old)}'"))
        found = self.doctor_of(f"echo '{json.dumps({**needs, 'cudnn': None, 'nccl': None, 'nccl_problem': 'none'})}'")
        self.assertIn("note cuDNN: the LibTorch of weir-worker was built without it", found)
        self.assertIn("note NCCL: none", found)
        found = self.doctor_of(MISSING)
        self.assertIn(f"bad  training: libcudnn.so.9 is missing on {here}, and weir-worker does not start without it\n"
                      "     install cuDNN 9", found)

    def test_a_worker_without_cudnn_fails_its_job_with_the_librarys_name(self):
        self.worker.write_text(f"#!/bin/sh\n{MISSING}\n")
        self.start(2)
        ended = self.cluster.api.wait_ended(self.submit(1, gpu=1))
        self.assertEqual(ended["state"], "FAILED")
        self.assertRegex(ended["reason"], "on node alpha .*exited with code 127; it does not start without "
                         "libcudnn[.]so[.]9, which is missing there: `weir doctor` on that node says what to install")


if __name__ == "__main__":
    unittest.main()
