"""What `make run` shows, and the examples that it and the README use."""

import json
import re
import subprocess
import sys
import unittest
from pathlib import Path

from cluster import BIN, SystemTest

ROOT = Path(__file__).resolve().parent.parent.parent


class Examples(SystemTest):
    def test_every_example_trains(self):
        self.cluster.start({"alpha": 4})
        examples = sorted((ROOT / "examples").glob("*.json"))
        self.assertTrue(examples)
        for example in examples:
            with self.subTest(example=example.name):
                done = self.cluster.run("--data-dir", self.cluster.data_dir, "submit", example, "--follow",
                                        "--set", "training.max_steps=5", seconds=600)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                job = next(j for j in self.cluster.api.get("/api/v1/jobs")["jobs"]
                           if j["name"] == json.loads(example.read_text())["name"])
                self.assertEqual((job["state"], job["step"]), ("SUCCEEDED", 5))

    def test_every_job_in_the_documents_is_valid(self):
        self.cluster.start_head()
        small = {"model": {"name": "lenet"}, "dataset": {"name": "fashion-mnist"}}
        found = 0
        for document in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
            text = document.read_text()
            jobs = re.findall(r"-d '(\{.*?\})'", text, re.DOTALL) + re.findall(r"(?m)^    (\{\"model\": .*\})$", text)
            parts = [f"{{{part}}}" for part in re.findall(r'`("[a-z_]+": \{[^`]*\})`', text)]
            for written in [*jobs, *parts]:
                with self.subTest(document=document.name, job=written):
                    found += 1
                    self.cluster.api.call("POST", "/api/v1/jobs/validate", small | json.loads(written))
        self.assertGreaterEqual(found, 4, "the documents have examples")

    def test_make_run_compares_two_trainings(self):
        # 94 steps of each training, of which the second one goes dense in the first 10.
        data_dir = self.cluster.folder / "demo"
        command = [sys.executable, ROOT / "scripts" / "demo.py", "--epochs", "0.1", "--data-dir", data_dir]
        environment = self.cluster.environment | {"CI": "1", "WEIR_BIN_DIR": str(BIN)}
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=1500)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertTrue((data_dir / "up.log").exists())
        self.assertRegex(done.stdout, r"the dashboard: http://127\.0\.0\.1:\d+/login\?code=\w+")
        self.assertEqual(done.stdout.count("SUCCEEDED"), 2, done.stdout)
        dense, sparse = map(float, re.search(r"sent by each worker +([\d.]+) MB +([\d.]+) MB", done.stdout).groups())
        ring = 2 * 3 / 4 * 4 * 431_080 / 1e6  # MB a step
        self.assertLess(abs(dense / (94 * ring) - 1), 0.01, done.stdout)
        self.assertLess(abs(sparse / (10 * ring) - 1), 0.1, "a tenth of the steps goes dense, the rest hardly counts")
        fewer = int(re.search(r"(\d+) times fewer than the dense ring's", done.stdout)[1])
        self.assertGreater(fewer, 100, done.stdout)


if __name__ == "__main__":
    unittest.main()
