"""A TCP proxy that carries only so many bytes a second: a slow line between real processes, without privileges."""

import socket
import threading
import time

CHUNK = 4096


class SlowLink:
    """Listens on a port of its own and passes everything on to `target` (HOST:PORT). What flows towards the target,
    over all connections together, is limited to `bytes_per_second`; what comes back is not."""

    def __init__(self, target: str, bytes_per_second: int):
        host, port = target.rsplit(":", 1)
        self.target = (host, int(port))
        self.rate = bytes_per_second
        self.carried = 0  # bytes, towards the target
        self.links = 0
        self.free_at = time.monotonic()
        self.lock = threading.Lock()
        self.closed = threading.Event()
        self.sockets: list[socket.socket] = []
        self.listener = socket.socket()
        # Set before listen(), for the connections accepted: or the kernel would take megabytes in at once.
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, CHUNK)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen()
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self.closed.set()
        for one in [self.listener, *self.sockets]:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it was closed by the other side
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(self.target)
            except OSError:
                return
            self.links += 1
            self.sockets += [near, far]
            threading.Thread(target=self._carry, args=(near, far, True), daemon=True).start()
            threading.Thread(target=self._carry, args=(far, near, False), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, limited: bool) -> None:
        try:
            while data := source.recv(CHUNK):
                if limited:
                    self._wait_for_room(len(data))
                sink.sendall(data)
        except OSError:
            pass  # one end is gone; the other is told below
        for one in (source, sink):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def _wait_for_room(self, count: int) -> None:
        with self.lock:
            self.carried += count
            begin = max(self.free_at, time.monotonic())
            self.free_at = begin + count / self.rate
        self.closed.wait(max(0.0, begin - time.monotonic()))
