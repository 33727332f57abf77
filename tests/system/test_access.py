"""Which secret opens what, and who is logged in, with a real head."""

import json
import unittest

from cluster import SystemTest
from weir_api import Api

NO_ACCESS = 4  # exit code


class Access(SystemTest):
    def start(self, *arguments: str) -> None:
        self.cluster.start_head(*arguments)
        self.api = self.cluster.api
        self.without_token = Api(self.api.address, None)

    def weir(self, *arguments: str) -> dict:
        """What a command of somebody with the head's data directory prints as JSON."""
        done = self.cluster.run("--data-dir", self.cluster.data_dir, "--json", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def routes(self) -> list[tuple[str, str]]:
        """Every route of the API, with "x" for each parameter."""
        document = self.api.get("/openapi.json")
        found = []
        for path, methods in document["paths"].items():
            parts = ["x" if part.startswith("{") else part for part in path.split("/")]
            found += [(method.upper(), "/".join(parts)) for method, route in methods.items() if "security" not in route]
        return found

    def log_in(self) -> dict[str, str]:
        """The headers of a browser that has opened a link."""
        link = self.weir("token", "link")["url"]
        status, headers, _ = self.without_token.request("GET", link[link.index("/login"):])
        self.assertEqual(status, 303)
        return {"Cookie": headers["set-cookie"].split(";")[0]}

    def status(self, method: str, path: str, headers: dict[str, str]) -> int:
        return self.without_token.request(method, path, headers=headers)[0]

    def test_the_secret_of_nodes_does_not_open_the_api_nor_the_token_the_control_port(self):
        self.start()
        self.assertNotEqual(self.cluster.node_secret, self.api.token)
        routes = self.routes()
        self.assertIn(("POST", "/api/v1/jobs"), routes)
        for i, (method, path) in enumerate(routes):
            # Ten wrong tokens within a minute, and the head says 429 to more.
            status = self.status(method, path, {"Authorization": f"Bearer {self.cluster.node_secret}"})
            self.assertEqual(status, 401 if i < 10 else 429, (method, path))
        for secret in (self.api.token, "x"):
            done = self.cluster.run("node", "--head", self.cluster.control, "--name", "n", WEIR_NODE_SECRET=secret)
            self.assertEqual(done.returncode, NO_ACCESS, done.stderr)
        self.assertEqual(self.api.nodes(), {})
        without = self.cluster.run("node", "--head", self.cluster.control)
        self.assertEqual(without.returncode, NO_ACCESS, without.stderr)
        self.assertIn("--secret-file", without.stderr)

    def test_a_node_takes_its_secret_from_a_file(self):
        self.start()
        file = self.cluster.folder / "copy"
        file.write_text(self.cluster.node_secret + "\n")
        file.chmod(0o644)
        refused = self.cluster.run("node", "--head", self.cluster.control, "--secret-file", file)
        self.assertIn("chmod 600", refused.stderr)
        file.chmod(0o600)
        self.cluster.node_secret = ""  # not from the environment
        self.cluster.start_node("alpha", 1, "--secret-file", file)
        self.cluster.await_nodes("alpha")

    def test_a_data_directory_that_others_have_made_has_no_files_for_them(self):
        self.cluster.data_dir.mkdir(mode=0o755)
        self.start()
        found = [self.cluster.data_dir / name for name in ("weir.db", "endpoints.json", "token", "lock")]
        self.assertEqual({file.name: file.stat().st_mode & 0o077 for file in found}, {file.name: 0 for file in found})

    def test_sessions_are_listed_revoked_and_outlive_the_head(self):
        self.start()
        first, second = self.log_in(), self.log_in()
        self.assertEqual(self.status("GET", "/api/v1/jobs", first), 200)
        self.assertEqual(self.status("POST", "/api/v1/session", first), 403, "a session renews itself")
        sessions = self.weir("session", "list")["sessions"]
        self.assertEqual(len(sessions), 2)
        of_first = next(s["id"] for s in sessions if s["id"] in first["Cookie"])
        self.assertEqual(self.weir("session", "revoke", of_first), {"revoked": 1})
        self.assertEqual(self.status("GET", "/api/v1/jobs", first), 401)

        host, port = self.api.address.rsplit(":", 1)
        self.cluster.head.kill()
        self.cluster.start_head(http=f"{host}:{port}")
        self.assertEqual(self.status("GET", "/api/v1/jobs", first), 401)
        self.assertEqual(self.status("GET", "/api/v1/jobs", second), 200)
        self.assertEqual(self.weir("session", "revoke", "--all"), {"revoked": 1})
        self.assertEqual(self.status("GET", "/api/v1/jobs", second), 401)
        missing = self.cluster.run("--data-dir", self.cluster.data_dir, "session", "revoke", of_first)
        self.assertEqual(missing.returncode, 3, missing.stderr)

    def test_behind_a_proxy(self):
        self.start("--public-url", "https://weir.example")
        link = self.weir("token", "link")["url"]
        self.assertTrue(link.startswith("https://weir.example/login?code="), link)
        status, headers, _ = self.api.request("POST", "/api/v1/session", headers={"Host": "weir.example",
                                                                               "Origin": "https://weir.example"})
        self.assertEqual(status, 204)
        self.assertIn("; Secure;", headers["set-cookie"])
        done = self.cluster.run("--data-dir", self.cluster.folder / "other", "head", "--public-url", "weir.example")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("--public-url", done.stderr)

    def test_doctor_states_how_many_files_may_be_open(self):
        done = self.cluster.run("--data-dir", self.cluster.data_dir, "--json", "doctor")
        checks = {check["what"]: check for check in json.loads(done.stdout)["checks"]}
        self.assertRegex(checks["open files"]["found"], r"^\d+ per process")


if __name__ == "__main__":
    unittest.main()
