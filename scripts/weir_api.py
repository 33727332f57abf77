"""A small client of the head's HTTP API, standard library only: for the demo, the system and the container tests."""

import http.client
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

ENDED = ("SUCCEEDED", "FAILED", "STOPPED")


class ApiError(Exception):
    """An answer that is not 2xx. `problem` is its problem+json body, if it had one."""

    def __init__(self, status: int, text: str):
        super().__init__(f"{status}: {text}")
        self.status = status
        try:
            self.problem = json.loads(text)
        except ValueError:
            self.problem = {}


def poll(until: Callable[[], Any], seconds: float, what: str | Callable[[], str]) -> Any:
    """Calls `until` until it gives something true, and gives that. After `seconds` without: TimeoutError."""
    deadline = time.monotonic() + seconds
    while True:
        value = until()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {seconds:.0f} s: {what() if callable(what) else what}")
        time.sleep(0.05)


class Api:
    def __init__(self, address: str, token: str | None):
        """`address` is HOST:PORT."""
        self.address = address
        self.token = token

    def request(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None,
                seconds: float = 30) -> tuple[int, dict[str, str], bytes]:
        """One exchange, whatever the status. A `body` that is not bytes is sent as JSON."""
        sent = dict(headers or {})
        if self.token is not None:
            sent.setdefault("Authorization", f"Bearer {self.token}")
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection(self.address, timeout=seconds)
        try:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON answer. Raises ApiError unless the status is 2xx."""
        status, _, text = self.request(method, path, body)
        if not 200 <= status < 300:
            raise ApiError(status, text.decode(errors="replace"))
        return json.loads(text) if text else None

    def get(self, path: str) -> Any:
        return self.call("GET", path)

    def submit(self, spec: dict) -> dict:
        return self.call("POST", "/api/v1/jobs", spec)

    def job(self, job_id: str) -> dict:
        return self.get(f"/api/v1/jobs/{job_id}")

    def nodes(self) -> dict[str, dict]:
        """The nodes by name; of several with one name, the one that lives."""
        nodes = self.get("/api/v1/nodes")["nodes"]
        return {n["name"]: n for n in sorted(nodes, key=lambda n: n["state"] != "lost")}

    def series(self, job_id: str, name: str, worker: int | None = None) -> list[list[float]]:
        """One metric's points [x, min, max, last] by step; of the whole job unless a worker is named."""
        chosen = "job" if worker is None else str(worker)
        found = self.get(f"/api/v1/jobs/{job_id}/metrics?name={name}&worker={chosen}&points=4000")["series"]
        return found[0]["points"] if found else []

    def wait_job(self, job_id: str, until: Callable[[dict], bool], seconds: float, what: str) -> dict:
        """The job as soon as `until` holds for it; gives up at once when it has ended otherwise."""
        seen: dict = {}

        def holds() -> bool:
            seen.clear()
            seen.update(self.job(job_id))
            if until(seen):
                return True
            if seen["state"] in ENDED:
                raise AssertionError(f"{what}: ended as {seen['state']} at step {seen['step']}: {seen['reason']}")
            return False

        poll(holds, seconds, lambda: f"{what}: still {seen['state']} {seen['phase']} ({seen['reason']})")
        return seen

    def wait_ended(self, job_id: str, seconds: float = 180) -> dict:
        return self.wait_job(job_id, lambda job: job["state"] in ENDED, seconds, "a job that ends")

    def wait_step(self, job_id: str, step: int, seconds: float = 120) -> dict:
        return self.wait_job(job_id, lambda job: job["step"] >= step, seconds, f"step {step}")

    def stream(self, topics: str, after: int | None = None,
               seconds: float = 60) -> Iterator[tuple[int | None, str, dict]]:
        """(sequence number, event, data) of each server-sent event, until the head closes the stream or says nothing
        at all for `seconds`."""
        headers = {"Accept": "text/event-stream", "Authorization": f"Bearer {self.token}"}
        if after is not None:
            headers["Last-Event-ID"] = str(after)
        connection = http.client.HTTPConnection(self.address, timeout=seconds)
        try:
            connection.request("GET", f"/api/v1/stream?topics={topics}", headers=headers)
            answer = connection.getresponse()
            if answer.status != 200:
                raise ApiError(answer.status, answer.read().decode(errors="replace"))
            sequence, event, data = None, "message", ""
            for raw in answer:
                line = raw.decode().rstrip("\r\n")
                if line.startswith("id:"):
                    sequence = int(line[3:])
                elif line.startswith("event:"):
                    event = line[6:].strip()
                elif line.startswith("data:"):
                    data += line[5:].strip()
                elif not line:
                    if data and event != "beat":  # which only shows that the head is there
                        yield sequence, event, json.loads(data)
                    sequence, event, data = None, "message", ""
        finally:
            connection.close()
