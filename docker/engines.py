"""Docker and podman behind one face, for the container test: build, compose, look inside, and leave nothing behind."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMPOSE = ROOT / "docker" / "compose.yaml"
OVERLAY = ROOT / "docker" / "compose.cuda.yaml"
BASE = "localhost/weir-debian:bookworm"


def run(*command: str, stop: Callable[[subprocess.Popen], None] = lambda process: None, **options) -> str:
    """Runs a command to its end and gives what it printed, if stdout=PIPE. Fails with RuntimeError and its stderr.

    It gets a session of its own, so that Ctrl-C reaches this script alone. Then `stop` may make it end soon; it has
    ended in any case when the exception goes on, and what it made can be removed.
    """
    process = subprocess.Popen(command, start_new_session=True, text=True, **options)
    try:
        out, error = process.communicate()
    except BaseException:
        while process.poll() is None:
            stop(process)
            time.sleep(0.1)
        raise
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit code {process.returncode}\n{error or ''}".rstrip())
    return (out or "").strip()


def kill_session(process: subprocess.Popen) -> None:
    os.killpg(process.pid, signal.SIGKILL)


def kill_build_step(process: subprocess.Popen) -> None:
    """Ends what a Dockerfile's RUN has started. `podman build` then fails and cleans up, whereas a signal to podman
    itself leaves the step running and its containers behind."""
    podman = os.path.realpath(shutil.which("podman"))
    for pid in descendants(process.pid):
        with contextlib.suppress(OSError):  # it may have ended by itself
            if os.readlink(f"/proc/{pid}/exe") != podman:
                os.kill(pid, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    found = []
    with contextlib.suppress(OSError):  # it may end meanwhile
        for thread in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in thread.read_text().split():
                found += [int(child), *descendants(int(child))]
    return found


class Engine:
    """What docker and podman have in common. Everything of one test carries the compose project's label."""

    program: str

    def __init__(self, project: str):
        self.project = project

    def ask(self, *arguments: str) -> str:
        return run(self.program, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def compose(self, *arguments: str) -> None:
        raise NotImplementedError

    def container(self, service: str) -> str:
        raise NotImplementedError

    def services(self, *files: Path) -> dict[str, dict]:
        """What the files say together of each service, read as the engine reads them, as far as it shows that."""
        raise NotImplementedError

    def left(self) -> dict[str, list[str]]:
        """What there is of the project, by kind, in the order in which it can be removed."""
        label = f"label=com.docker.compose.project={self.project}"
        everything = {"container": ["-a"], "volume": [], "network": []}
        found = {kind: self.ask(kind, "ls", *all_of_them, "-q", "--filter", label).split()
                 for kind, all_of_them in everything.items()}
        return {kind: names for kind, names in found.items() if names}

    def remove(self) -> None:
        """Takes down whatever there is of the project, in whatever state."""
        for kind, names in self.left().items():
            self.ask(kind, "rm", "-f", *names)

    def print_logs(self) -> None:
        for container in self.left().get("container", []):
            print("----", self.ask("inspect", "-f", "{{.Name}}: {{.State.Status}}, exit code {{.State.ExitCode}}",
                                   container), flush=True)
            subprocess.run([self.program, "logs", "--tail", "60", container], stderr=subprocess.STDOUT)


class Docker(Engine):
    program = "docker"

    @staticmethod
    def answers() -> bool:
        return shutil.which("docker") is not None and \
            subprocess.run(["docker", "info"], capture_output=True).returncode == 0

    def compose(self, *arguments: str) -> None:
        run("docker", "compose", "-p", self.project, "-f", str(COMPOSE), *arguments)

    def services(self, *files: Path) -> dict[str, dict]:
        chosen = [word for file in files for word in ("-f", str(file))]
        return json.loads(self.ask("compose", *chosen, "config", "--format", "json"))["services"]

    def build(self) -> None:
        run("docker", "compose", "-f", str(COMPOSE), "build", stop=lambda process: process.terminate())

    def container(self, service: str) -> str:
        return f"{self.project}-{service}-1"

    def healthy(self, service: str) -> bool:
        return self.ask("inspect", "-f", "{{.State.Health.Status}}", self.container(service)) == "healthy"


class Podman(Engine):
    """Debian's podman, as root. Its settings come from a file of ours: the machine's own stay as they are."""

    program = "podman"

    def __init__(self, project: str, folder: Path):
        super().__init__(project)
        self.folder = folder
        settings = folder / "containers.conf"
        settings.write_text(
            # Limits that a machine without CAP_SYS_RESOURCE can grant, and the runtime that copes with hybrid cgroups.
            '[containers]\ndefault_ulimits = ["nofile=20000:20000", "nproc=4096:4096"]\n'
            '[engine]\nruntime = "runc"\n[network]\nnetwork_backend = "netavark"\n')
        os.environ["CONTAINERS_CONF"] = str(settings)
        os.environ["DISABLE_HC_SYSTEMD"] = "true"  # no timers: healthy() makes the checks itself

    def compose(self, *arguments: str) -> None:
        # Without the writable /run that podman alone would add: what works here works with Docker.
        run("podman-compose", "--podman-run-args=--read-only-tmpfs=false", "-p", self.project, "-f", str(COMPOSE),
            *arguments)
        if arguments[0] == "down":  # podman-compose forgets the network
            self.remove()

    def services(self, *files: Path) -> dict[str, dict]:
        """podman-compose does not show what it has read. It has to accept the files; then they are read once more, by
        the Python that it runs on."""
        chosen = [word for file in files for word in ("-f", str(file))]
        run("podman-compose", "-p", self.project, *chosen, "ps", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        script = ("import json, sys, yaml; print(json.dumps({name: service for file in sys.argv[1:] "
                  "for name, service in yaml.safe_load(open(file))['services'].items()}))")
        return json.loads(self.output("/usr/bin/python3", "-c", script, *map(str, files)))

    def build(self) -> None:
        if subprocess.run(["podman", "image", "exists", BASE]).returncode != 0:
            self.make_base()
        for target in ("head", "node"):
            run("podman", "build", "--network", "host", "--build-arg", f"BASE={BASE}", "--target", target,
                "-t", f"weir-{target}", "-f", str(ROOT / "docker" / "Dockerfile"), str(ROOT), stop=kill_build_step)

    def make_base(self) -> None:
        """Debian 12 from this machine's mirror. Inside, apt and npm reach the network as they do on this machine."""
        print("== base image from this machine's Debian mirror", flush=True)
        lines = self.output("apt-get", "indextargets", "--format", "$(SITE) $(CODENAME) $(COMPONENT)",
                            "Created-By: Packages").splitlines()
        sources = sorted({tuple(line.split()) for line in lines if line.split()[1].startswith("bookworm")})
        mirror = next(site for site, codename, _ in sources if codename == "bookworm")
        root = self.folder / "base"
        # In a mount namespace, so that nothing of this machine is mounted in a folder that is about to be removed.
        run("unshare", "--mount", "debootstrap", "--variant=minbase", "bookworm", str(root), mirror,
            stdout=subprocess.DEVNULL, stop=kill_session)
        apt = root / "etc" / "apt"
        (apt / "sources.list").write_text("".join(f"deb {' '.join(source)}\n" for source in sources))
        (apt / "apt.conf.d" / "90machine").write_text(self.output("apt-config", "dump", "Acquire") + "\n")
        # The certificates that this machine trusts beyond Debian's. Debian's npm looks at the variable.
        trusted = Path("/usr/local/share/ca-certificates")
        if trusted.exists():
            shutil.copytree(trusted, root / trusted.relative_to("/"), dirs_exist_ok=True)
        archive = self.folder / "base.tar"
        run("tar", "-C", str(root), "-cf", str(archive), ".")
        run("podman", "import", "--change", "ENV NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt",
            str(archive), BASE)

    @staticmethod
    def output(*command: str) -> str:
        return run(*command, stdout=subprocess.PIPE)

    def container(self, service: str) -> str:
        return f"{self.project}_{service}_1"

    def healthy(self, service: str) -> bool:
        command = ["podman", "healthcheck", "run", self.container(service)]
        return subprocess.run(command, capture_output=True).returncode == 0
