"""Files of data and of modules that are missing, cut short or hostile: the job fails and says why and what to do, its
workers live until they have said so, and other jobs go on."""

import gzip
import io
import json
import os
import struct
import unittest
import zipfile
from collections.abc import Callable
from pathlib import Path

from cluster import LONG, ORDERLY_EXITS, PATIENCE, SystemTest, job
from weir_api import poll

MODULE = (Path(__file__).parent / "modules" / "linear.pt").read_bytes()
MLP = {"name": "mlp", "params": {"hidden": 8}}
GPT = {"name": "gpt", "params": {"layers": 1, "heads": 1, "width": 8}}
SYNTHETIC = {"name": "synthetic", "params": {"classes": 10, "train_examples": 64, "test_examples": 8}}
CIFAR = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
CIFAR_BYTES = 10_000 * 3073


def idx(*extents: int, magic: bytes = b"\0\0\x08", value: int = 1, elements: int | None = None) -> bytes:
    count = 1
    for extent in extents:
        count *= extent
    header = magic + bytes([len(extents)]) + struct.pack(f">{len(extents)}I", *extents)
    return header + bytes([value]) * (count if elements is None else elements)


def safetensors(**tensors: tuple[str, list[int], bytes]) -> bytes:
    header, data = {}, b""
    for name, (dtype, shape, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def arrays(**changes: tuple[str, list[int], bytes]) -> bytes:
    """24 black images of class 1 for training and as many for testing."""
    tensors = {}
    for part in ("train", "test"):
        tensors[f"{part}_inputs"] = ("U8", [24, 28, 28], bytes(24 * 28 * 28))
        tensors[f"{part}_classes"] = ("U8", [24], b"\1" * 24)
    return safetensors(**{name: tensor for name, tensor in {**tensors, **changes}.items() if tensor})


def module(edit: Callable[[str], str]) -> bytes:
    """linear.pt with other code in it."""
    source = zipfile.ZipFile(io.BytesIO(MODULE))
    result = io.BytesIO()
    with zipfile.ZipFile(result, "w") as target:
        for entry in source.infolist():
            data = source.read(entry)
            if entry.filename == "linear/code/__torch__.py":
                data = edit(data.decode()).encode()
            target.writestr(entry.filename, data)
    return result.getvalue()


def with_body(lines: str, result: str = "Tensor") -> bytes:
    """linear.pt whose forward() does this."""
    def edit(code: str) -> str:
        head, tail = code.replace("-> Tensor", f"-> {result}").split("    fc = self.fc\n")
        assert "return (fc)" in tail, code
        return head + "".join(f"    {line}\n" for line in lines.split("\n"))
    return module(edit)


def at_load(lines: str) -> bytes:
    """linear.pt that does this when it is loaded."""
    return module(lambda code: code + "  def __getstate__(self: __torch__.Linear) -> Dict[str, bool]:\n"
                  "    return {\"training\": self.training}\n"
                  "  def __setstate__(self: __torch__.Linear,\n    state: Dict[str, bool]) -> NoneType:\n"
                  + "".join(f"    {line}\n" for line in lines.split("\n")) + "    return None\n")


# Its result is used: otherwise it would be optimized away.
LOOP = "_1 = 1\nwhile _1 > 0:\n  _1 = 3 - _1\nassert _1 < 0"
CALL = "fc = self.fc\nreturn (fc).forward(torch.flatten(x, 1), )"


class BadFiles(SystemTest):
    def setUp(self):
        super().setUp()
        self.files = self.cluster.folder / "files"
        self.modules = self.cluster.folder / "modules"
        self.modules.mkdir()
        self.cluster.start_head()
        self.cluster.start_node("alpha", 4, "--modules", self.modules)
        self.cluster.await_nodes("alpha")
        self.api = self.cluster.api
        lasting = {"name": "synthetic", "params": {"train_examples": 16384}}
        self.bystander = self.api.submit(job(workers=1, steps=LONG, dataset=lasting))["id"]
        self.api.wait_step(self.bystander, 1)

    def folder(self, name: str, files: dict[str, bytes | int | None]) -> Path:
        """A new folder with these files; a number is a file of so many zeros, and None a named pipe."""
        folder = self.files / name.replace(" ", "-")
        folder.mkdir(parents=True)
        for file, contents in files.items():
            if contents is None:
                os.mkfifo(folder / file)
            elif isinstance(contents, int):
                with (folder / file).open("wb") as zeros:
                    zeros.truncate(contents)
            else:
                (folder / file).write_bytes(contents)
        return folder

    def submit(self, model: dict, dataset: dict, workers: int = 1) -> str:
        training = {"max_steps": 2, "epochs": 1000, "batch_size": 4}
        return self.api.submit(job(workers=workers, model=model, dataset=dataset, training=training))["id"]

    def expect(self, jobs: dict[str, tuple[str, list[str]]]) -> None:
        """Waits for jobs by name. Those with words must fail with all of them in the reason, the others succeed."""
        for name, (job_id, words) in jobs.items():
            with self.subTest(case=name):
                ended = self.api.wait_ended(job_id)
                self.assertEqual(ended["state"], "FAILED" if words else "SUCCEEDED", ended["reason"])
                for word in words:
                    self.assertIn(word, ended["reason"])
                self.assertEqual(ended["restarts"], 0, "trying again would not help")
                poll(lambda: all(w["state"] == "exited" for w in self.api.job(job_id)["workers"]), PATIENCE,
                     "workers exit")
                for worker in self.api.job(job_id)["workers"]:  # none died of it
                    self.assertIn((worker["exit_code"], worker.get("signal")), ORDERLY_EXITS, worker)
        step = self.api.job(self.bystander)["step"]
        self.api.wait_step(self.bystander, step + 5)
        self.assertTrue(self.cluster.node_processes["alpha"].alive())

    def test_images(self):
        good = {"train-images-idx3-ubyte": idx(24, 28, 28), "train-labels-idx1-ubyte": idx(24),
                "t10k-images-idx3-ubyte": idx(24, 28, 28), "t10k-labels-idx1-ubyte": idx(24)}
        packed = gzip.compress(idx(24, 28, 28))
        zipped = {f"{name}.gz": gzip.compress(contents) for name, contents in good.items()}
        images, labels = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
        cifar = {file: CIFAR_BYTES for file in CIFAR}
        cases = [
            ("mnist", "good", good, []),
            ("mnist", "good and gzipped", zipped, []),
            ("mnist", "without labels", {file: good[file] for file in good if file != labels},
             [labels, "No such file", "their folder is dataset.path"]),
            ("mnist", "empty", {**good, labels: b""}, [labels, "ends after 0 of 4 bytes", "get it anew"]),
            ("mnist", "another magic number", {**good, images: idx(24, 28, 28, magic=b"\0\0\x0d")},
             [images, "first bytes are not those of an IDX array", "get it anew"]),
            ("mnist", "short", {**good, images: idx(24, 28, 28, elements=9999)},
             [images, "it ends after 10015 of 18832 bytes: the file is truncated", "get it anew"]),
            ("mnist", "long", {**good, labels: idx(24, elements=25)}, [labels, "it goes on after", "get it anew"]),
            ("mnist", "a claim of terabytes", {**good, images: idx(2**31, 2**31, 28, elements=0)},
             [images, "claims more than 4 GiB"]),
            ("mnist", "fewer labels", {**good, labels: idx(23)}, [images, "has 24 images", "has 23 labels"]),
            ("mnist", "labels beyond", {**good, labels: idx(24, value=10)}, [labels, "a label is not below 10"]),
            ("mnist", "other images", {**good, images: idx(24, 27, 28)}, [images, "its images are not 28 x 28"]),
            ("mnist", "gzip cut", {**zipped, f"{images}.gz": packed[:len(packed) // 2]}, [images, "get it anew"]),
            ("mnist", "gzip with another sum", {**zipped, f"{images}.gz": packed[:-8] + b"1234" + packed[-4:]},
             [images, "get it anew"]),
            ("mnist", "gzip in name only", {**zipped, f"{images}.gz": b"\x1f\x8b" + bytes(500)}, [images]),
            ("mnist", "a named pipe", {**good, images: None}, [images, "is not a file"]),
            ("cifar10", "good", cifar, []),
            ("cifar10", "without a batch", {file: size for file, size in cifar.items() if file != CIFAR[2]},
             ["data_batch_3.bin: No such file", "dataset.path must be the folder with data_batch_1.bin, "]),
            ("cifar10", "a short batch", {**cifar, CIFAR[3]: CIFAR_BYTES - 1},
             ["data_batch_4.bin: it has 30729999 bytes instead of the 30730000", "truncated"]),
            ("cifar10", "a label beyond", {**cifar, CIFAR[0]: b"\x0a" + bytes(CIFAR_BYTES - 1)},
             ["data_batch_1.bin: image 0 has the label 10", "the last class is 9"]),
            ("cifar100", "nothing", {}, ["train.bin: No such file", "dataset.path must be the folder with train.bin"]),
        ]
        jobs = {}
        for dataset, name, files, words in cases:
            folder = self.folder(f"{dataset} {name}", files)
            jobs[f"{dataset}: {name}"] = (self.submit(MLP, {"name": dataset, "path": str(folder)}), words)
        missing = {"name": "cifar10", "path": str(self.files / "none")}
        jobs["cifar10: no folder"] = (self.submit(MLP, missing), ["none/data_batch_1.bin: No such file"])
        self.expect(jobs)

    def test_arrays_and_texts(self):
        usage = "dataset.path must be a safetensors file with the tensors train_inputs, train_classes, "
        good = arrays()
        two = {"vocabulary": 2, "context": 8}
        text = {"context": 8}
        floats = ("F32", [24, 28, 28], struct.pack("<f", float("nan")) * (24 * 784))
        cases = [
            ("arrays", "good", good, {}, []),
            ("arrays", "empty", b"", {}, [usage]),
            ("arrays", "no safetensors", b"\xff" * 4096, {}, [usage]),
            ("arrays", "no JSON", struct.pack("<Q", 64) + b"{" * 4096, {}, [usage]),
            ("arrays", "cut", good[:-1], {}, [usage]),
            ("arrays", "one tensor less", arrays(train_classes=None), {}, ["no tensor 'train_classes'", usage]),
            ("arrays", "of 16 bits", arrays(train_inputs=("F16", [24, 14, 28], bytes(24 * 784))), {},
             ["'train_inputs' is of type F16; inputs are U8 or F32", usage]),
            ("arrays", "other images", arrays(train_inputs=("U8", [24, 784], bytes(24 * 784))), {},
             ["'train_inputs' has the shape [24, 784]; the dataset's parameters say [examples, 1, 28, 28]"]),
            ("arrays", "another class", arrays(train_classes=("U8", [24], b"\7" * 24)), {"classes": 2},
             ["'train_classes' has the class 7 at 0", "there are 2"]),
            ("arrays", "no number", arrays(train_inputs=floats), {}, ["not a finite number", usage]),
            ("arrays", "fewer classes", arrays(train_classes=("U8", [23], b"\1" * 23)), {},
             ["'train_inputs' has 24 examples, 'train_classes' has 23"]),
            ("text", "good", b"to be or not to be " * 100, text, []),
            ("text", "empty", b"", text, ["has 0 bytes", "dataset.path must be a text file"]),
            ("text", "short", b"short", text, ["has 5 bytes", "one example takes 9", "dataset.path must be"]),
            ("text", "of many bytes", bytes(range(256)) * 9, two,
             ["has 256 different bytes, and the dataset's parameter vocabulary allows 2"]),
        ]
        jobs = {}
        for dataset, name, contents, params, words in cases:
            file = self.folder(f"{dataset} {name}", {"data": contents}) / "data"
            model = GPT if dataset == "text" else MLP
            spec = {"name": dataset, "path": str(file), "params": params}
            jobs[f"{dataset}: {name}"] = (self.submit(model, spec), words)
        folder = str(self.folder("no texts", {"a.md": b"text"}))
        jobs["text: none in the folder"] = (self.submit(GPT, {"name": "text", "path": folder, "params": text}),
                                            ["no file in this folder ends in .txt"])
        for name in ("arrays", "text"):
            missing = {"name": name, "path": str(self.files / "none")}
            jobs[f"{name}: none"] = (self.submit(GPT if name == "text" else MLP, missing),
                                     ["none: No such file", "dataset.path must be a "])
        # The parameters allow ten classes, so only the workers see that the files have one.
        alone = {"name": "arrays", "path": str(self.folder("one class", {"data": good}) / "data"),
                 "partition": "by_class"}
        jobs["arrays: one class, two workers"] = (self.submit(MLP, alone, workers=2),
                                                  ["there are 1 classes for 2 workers; take fewer workers"])
        self.expect(jobs)

    def test_modules(self):
        unreadable = ["LibTorch cannot read it as TorchScript: ", "torch.jit.script"]
        cases = [
            ("good", MODULE, []),
            ("good and packed again", module(lambda code: code), []),
            ("empty", b"", unreadable),
            ("no module", b"no module at all", unreadable),
            ("cut", MODULE[:len(MODULE) // 2], unreadable),
            ("cut at its end", MODULE[:-1], unreadable),
            ("no code", module(lambda code: ""), unreadable),
            ("code that does not compile", module(lambda code: code.replace("torch.flatten", "torch.nonsense")),
             [*unreadable, "Unknown builtin op: aten::nonsense"]),
            ("more outputs", with_body("return torch.cat([torch.flatten(x, 1), torch.flatten(x, 1)], 1)"),
             ["it returns 2 x 1568 and not the 2 x 10 that the dataset asks for"]),
            ("two tensors", with_body("return (x, x)", "Tuple[Tensor, Tensor]"), ["Expected Tensor but got Tuple"]),
            ("another rank of input", with_body("return torch.conv1d(x, torch.zeros([10, 1, 3]))"),
             ["does not run: ", "for two examples of 1 x 28 x 28"]),
            ("raises when loaded", at_load('ops.prim.RaiseException("AssertionError: not today")'),
             ["not today", *unreadable]),
            ("loops when loaded", at_load(LOOP), ["loaded and tried within 1 s", "load_seconds"]),
            ("loops when tried", with_body(f"{LOOP}\n{CALL}"), ["loaded and tried within 1 s", "load_seconds"]),
            ("writes when loaded", at_load(f'torch.save(3, "{self.files}/written")'),
             [*unreadable, "Unknown builtin op: aten::save"]),
            ("writes when tried", with_body(f'torch.save(x, "{self.files}/written")\n{CALL}'),
             [*unreadable, "Unknown builtin op: aten::save"]),
            ("reads", with_body(f'_0 = torch.from_file("/etc/passwd", False, 8, dtype=0)\n{CALL}'),
             [*unreadable, "Unknown builtin op: aten::from_file"]),
        ]
        self.files.mkdir()
        jobs = {}
        for name, contents, words in [*cases, ("none", None, ["none.pt: No such file or directory", "on every node"])]:
            file = f"{name.replace(' ', '-')}.pt"
            if contents is not None:
                (self.modules / file).write_bytes(contents)
            model = {"name": "torchscript", "params": {"file": file}}
            if name.startswith("loops"):
                model["params"]["load_seconds"] = 1
            words = [file, *words] if words else []
            jobs[name] = (self.submit(model, SYNTHETIC), words)
        self.expect(jobs)
        self.assertFalse((self.files / "written").exists())


if __name__ == "__main__":
    unittest.main()
