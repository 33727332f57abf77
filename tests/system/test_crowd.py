"""Many connections to one head: silent and slow strangers, and hundreds of clients that follow the stream."""

import resource
import signal
import socket
import time
import unittest

from cluster import PATIENCE, SystemTest
from weir_api import poll

SILENT = 1200
STREAMS = 800
STREAM_BEGINS = b"event: beat\ndata: {}\n\n"
LAST_CHUNK = b"0\r\n\r\n"
STOP_GRACE = 0.5  # seconds that a head which stops gives its streams; what a busy machine leaves until then is cut off
# The head starts with the limit of open files that shells usually give, which is too low for this crowd.
USUAL_LIMIT = ["sh", "-c", 'ulimit -Sn 1024 && exec "$@"', "sh"]


class Crowd(SystemTest):
    def setUp(self):
        super().setUp()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard != resource.RLIM_INFINITY and hard < 4 * (SILENT + STREAMS):
            self.skipTest(f"a process may open {hard} files here")
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        self.cluster.start_head(prefix=USUAL_LIMIT)
        self.host, port = self.cluster.api.address.rsplit(":", 1)
        self.port = int(port)

    def connect(self, data: bytes = b"") -> socket.socket:
        connection = socket.create_connection((self.host, self.port), PATIENCE)
        self.addCleanup(connection.close)
        if data:
            connection.sendall(data)
        return connection

    def request(self, path: str, *headers: str, token: bool = True) -> bytes:
        lines = [f"GET {path} HTTP/1.1", f"Host: {self.cluster.api.address}", *headers]
        if token:
            lines.append(f"Authorization: Bearer {self.cluster.api.token}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def open_stream(self) -> socket.socket:
        connection = self.connect(self.request("/api/v1/stream?topics=jobs"))
        self.read_until(connection, STREAM_BEGINS)
        return connection

    def ends_whole(self, stream: socket.socket) -> bool:
        """Reads to the end of a stream."""
        stream.settimeout(PATIENCE)
        seen = b""
        while not seen.endswith(LAST_CHUNK):
            try:
                piece = stream.recv(65536)
            except ConnectionError:
                return False
            if not piece:
                return False
            seen += piece
        return True

    def read_until(self, connection: socket.socket, end: bytes) -> None:
        connection.settimeout(PATIENCE)
        seen = b""
        while end not in seen:
            piece = connection.recv(65536)
            self.assertTrue(piece, f"closed after {seen!r}")
            seen += piece

    def everybody_is_answered(self):
        with socket.create_connection((self.host, self.port), PATIENCE) as visitor:
            visitor.sendall(self.request("/healthz", token=False))
            self.assertTrue(visitor.recv(65536).startswith(b"HTTP/1.1 200 "))
        self.assertEqual(self.cluster.api.request("GET", "/api/v1/jobs")[0], 200)

    def silenced(self, connections: list[socket.socket]) -> int:
        """How many of these connections the head has closed."""
        closed = 0
        for connection in connections:
            connection.setblocking(False)
            try:
                while connection.recv(65536):
                    pass  # the refusal of a body
                closed += 1
            except ConnectionError:
                closed += 1
            except BlockingIOError:
                pass
        return closed

    def test_silent_and_slow_strangers_cost_nobody_an_answer(self):
        silent, streams = [], []
        slow_header = self.request("/healthz", token=False)[:-10]
        slow_body = self.request("/healthz", "Content-Length: 10", token=False) + b"{"
        for i in range(SILENT):
            silent.append(self.connect((b"", slow_header, slow_body)[i % 3]))
            if i % 3 < 2:
                streams.append(self.open_stream())
            if i % 20 == 0:
                self.everybody_is_answered()
        self.assertEqual(len(streams), STREAMS)
        self.everybody_is_answered()
        figures = self.cluster.api.request("GET", "/metrics")[2].decode()
        self.assertIn(f"weir_http_streams {STREAMS}\n", figures)
        poll(lambda: self.silenced(silent) >= SILENT - 256, PATIENCE, "strangers keep more places than there are")

        # All streams end at once when the head stops, each as a whole body does.
        began = time.monotonic()
        self.cluster.head.signal(signal.SIGTERM)
        cut_off = 0
        for stream in streams:
            cut_off += not self.ends_whole(stream)
            stream.close()
        took = time.monotonic() - began
        self.assertEqual(self.cluster.head.popen.wait(PATIENCE), 0)
        print(f"weir head with {STREAMS} streams and {SILENT} strangers stopped in {time.monotonic() - began:.2f} s")
        self.assertTrue(cut_off == 0 or took > STOP_GRACE, f"{cut_off} streams were cut off within {took:.2f} s")


if __name__ == "__main__":
    unittest.main()
