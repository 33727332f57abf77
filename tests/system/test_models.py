"""Models of texts, and models of one's own, trained by real processes."""

import json
import shutil
import unittest
from pathlib import Path

from cluster import PATIENCE, SystemTest, job
from weir_api import poll

# A text, and what a model reaches that knows only how often each token occurs (tests/training/learning_test.cpp).
TEXT = {"name": "synthetic-text", "params": {"context": 16, "vocabulary": 16, "train_examples": 1024,
                                             "test_examples": 128}}
UNIGRAM_LOSS = 2.482


class Texts(SystemTest):
    def test_both_learn_what_follows_what(self):
        self.cluster.start({"alpha": 1, "beta": 1})
        api = self.cluster.api
        for model in ({"name": "char_lstm", "params": {"embedding": 16, "hidden": 32, "layers": 1}},
                      {"name": "gpt", "params": {"layers": 1, "heads": 2, "width": 32}}):
            with self.subTest(model=model["name"]):
                spec = job(workers=2, compressor="topk", model=model, dataset=TEXT)
                spec["training"] = {"epochs": 8, "batch_size": 16, "seed": 7,
                                    "optimizer": {"name": "adamw", "lr": 0.01, "no_decay": True}}
                ended = api.wait_ended(api.submit(spec)["id"])
                self.assertEqual(ended["state"], "SUCCEEDED", ended["reason"])
                self.assertEqual({worker["node"] for worker in ended["workers"]}, {"alpha", "beta"})
                self.assertEqual(ended["step"], 8 * 32)
                loss = poll(lambda: api.series(ended["id"], "test_loss"), PATIENCE, "the loss on the test's text")
                self.assertLess(loss[-1][1], 0.85 * UNIGRAM_LOSS)
                self.assertLess(api.series(ended["id"], "loss")[-1][1], 0.85 * UNIGRAM_LOSS)


class Precision(SystemTest):
    def test_bfloat16_is_checked_and_trained_in(self):
        self.cluster.start({"alpha": 2})
        api = self.cluster.api
        spec = job(workers=2, compressor="dgc", steps=60)
        spec["training"]["precision"] = "half"
        status, _, body = api.request("POST", "/api/v1/jobs/validate", spec)
        self.assertEqual(status, 422, body)
        self.assertEqual([(error["pointer"], error["detail"]) for error in json.loads(body)["errors"]],
                         [("/training/precision", 'must be one of "float32", "bfloat16"')])
        spec["training"]["precision"] = "bfloat16"
        ended = api.wait_ended(api.submit(spec)["id"])
        self.assertEqual((ended["state"], ended["step"]), ("SUCCEEDED", 60), ended["reason"])
        self.assertEqual(ended["spec"]["training"]["precision"], "bfloat16")
        self.assertIn("runs forward passes in bfloat16", api.get(f"/api/v1/jobs/{ended['id']}/logs?worker=0")["text"])


class Modules(SystemTest):
    def setUp(self):
        super().setUp()
        self.modules = self.cluster.folder / "modules"
        shutil.copytree(Path(__file__).parent / "modules", self.modules)
        self.cluster.start_head()
        self.cluster.start_node("alpha", 2, "--modules", self.modules)
        self.cluster.await_nodes("alpha")

    def test_a_module_of_the_operator_trains(self):
        spec = job(model={"name": "torchscript", "params": {"file": "linear.pt"}},
                   dataset={"name": "synthetic", "params": {"train_examples": 512, "test_examples": 64}})
        ended = self.cluster.api.wait_ended(self.cluster.api.submit(spec)["id"])
        self.assertEqual(ended["state"], "SUCCEEDED", ended["reason"])
        self.assertEqual(ended["step"], 20)

    def test_a_job_names_no_other_place(self):
        spec = job(model={"name": "torchscript", "params": {"file": "../endpoints.json"}})
        status, _, body = self.cluster.api.request("POST", "/api/v1/jobs/validate", spec)
        self.assertEqual(status, 422, body)
        self.assertIn(b"/model", body)


if __name__ == "__main__":
    unittest.main()
