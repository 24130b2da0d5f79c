"""A host: an actor with one Node worker process below it, whose lines it passes on in groups.

Its code is sent with the actor, so a node needs nothing of this package.
"""

from __future__ import annotations

import asyncio
import collections
import io
import os
import signal
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from .node import find_node, node_command

# A worker that writes faster than the bridge reads has to wait.
MAX_HELD_BYTES = 16 << 20
# Lines of one answer; a longer line goes alone.
MAX_GROUP_BYTES = 1 << 20
# Lines of the worker's log that wait for the bridge.
MAX_HELD_LOGS = 1000
# Longest line: limits.maxMessageBytes.
MAX_LINE_BYTES = 64 << 20
# Time for the rest of the output of a process that has ended: a child of it may hold it open.
OUTPUT_SECONDS = 0.5
# Interval between two looks whether the worker runs.
WATCH_SECONDS = 0.2

# A shell beside the worker, in its process group. The leash is a pipe whose other end only this
# process has: when it ends, in any way, the worker has some seconds and the group is killed.
KEEPER = """
trap "" TERM HUP INT
grace=$1 leash=$2
shift 2
exec 5<&0 </dev/null
{ trap - TERM HUP INT; exec "$@"; } <&5 5<&- & program=$!
exec 5<&- >/dev/null
{ read -r _ <"/dev/fd/$leash"; sleep "$grace"; kill -KILL 0; } 2>/dev/null &
wait "$program"
"""


class Software(TypedDict):
    """The JavaScript of Sluice, for nodes without."""

    version: str
    digest: str
    # A reference to a zip archive in Ray's object store; empty = nodes must have it.
    archive: list[Any]
    # False = what is installed on nodes does not count.
    usesInstalled: bool


class HostStart(TypedDict):
    """What a host runs."""

    software: Software
    arguments: list[str]
    environment: dict[str, str]
    directory: str
    # Places of Node that may be there.
    nodes: list[str]
    # Seconds that the worker has to write what it has if the actor dies.
    grace: float


class Host:
    """The actor. A call that finds nothing to say waits a little, so calls are also its pings."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._lines: collections.deque[str] = collections.deque()
        self._logs: list[str] = []
        self._bytes = 0
        self._end: str | None = None
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._leash: int | None = None

    async def start(self, start: HostStart) -> dict[str, Any]:
        """Starts the worker, and tells where; or tells what keeps this node from that."""
        import ray

        context = ray.get_runtime_context()
        address = ray.util.get_node_ip_address()
        place = {"node": context.get_node_id(), "address": address}
        environment = {
            **os.environ,
            **start["environment"],
            # By these a worker knows where it is.
            "SLUICE_RAY_ACTOR": context.get_actor_id() or "",
            "SLUICE_RAY_NODE": address,
        }
        if environment.get("SLUICE_RAY_FILES"):
            # Ray unpacks what came with the job on each node, in a place of its own.
            environment["SLUICE_RAY_FILES"] = os.path.join(os.getcwd(), "files")
        try:
            node = await asyncio.to_thread(find_node, start["nodes"])
            if node is None:
                return {**place, "problem": "it lacks Node.js", "lacksNode": True}
            software = await software_on_node(start["software"], environment)
            if software is None:
                version = start["software"]["version"]
                return {**place, "problem": f"it lacks sluice-ray {version}"}
            # Node keeps compiled code there, which halves the start of the next worker.
            environment.setdefault(
                "NODE_COMPILE_CACHE", os.path.join(kept_places(environment)[0], "compiled")
            )
            command = [*node_command(node, software), *start["arguments"]]
            await self._run(command, start, environment)
        except OSError as error:
            return {**place, "problem": str(error)}
        return place

    async def _run(self, command: list[str], start: HostStart, environment: dict[str, str]) -> None:
        leash, self._leash = os.pipe()
        directory = start["directory"]
        try:
            process = await asyncio.create_subprocess_exec(
                *["/bin/sh", "-c", KEEPER, "sluice", str(start["grace"]), str(leash), *command],
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=environment,
                cwd=directory if os.path.isdir(directory) else None,
                pass_fds=[leash],
                start_new_session=True,
                limit=MAX_LINE_BYTES,
            )
        finally:
            os.close(leash)
        self._process = process
        self._watching = asyncio.ensure_future(self._watch(process))

    async def put(self, lines: Sequence[str]) -> None:
        """Passes lines to the worker."""
        process = self._process
        if process is None or process.stdin is None or self._end is not None:
            return
        try:
            process.stdin.write("".join(f"{line}\n" for line in lines).encode())
            await process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            # The end of the worker is told by `take`.
            pass

    async def take(self, wait: float) -> dict[str, Any]:
        """What the worker has said since the last call; waits up to so many seconds for it."""
        if not self._lines and not self._logs and self._end is None:
            self._news.clear()
            try:
                await asyncio.wait_for(self._news.wait(), wait)
            except asyncio.TimeoutError:
                pass
        lines: list[str] = []
        size = 0
        while self._lines and (size == 0 or size + len(self._lines[0]) <= MAX_GROUP_BYTES):
            size += len(self._lines[0])
            lines.append(self._lines.popleft())
        self._bytes -= size
        self._room.set()
        logs, self._logs = self._logs, []
        end = None if self._lines else self._end
        return {"lines": lines, "logs": logs, "end": end}

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None and process.stderr is not None
        reading = [
            asyncio.ensure_future(self._read(process.stdout, process.pid)),
            asyncio.ensure_future(self._read_logs(process.stderr, process.pid)),
        ]
        ended = asyncio.ensure_future(process.wait())
        # Python waits for the output too, which a child of the worker may hold open.
        while process.returncode is None:
            await asyncio.wait({ended}, timeout=WATCH_SECONDS)
        kill_group(process.pid)
        await asyncio.wait(reading, timeout=OUTPUT_SECONDS)
        for each in reading:
            each.cancel()
        self._end = how(process.returncode)
        self._news.set()

    async def _read(self, stream: asyncio.StreamReader, pid: int) -> None:
        while line := await line_of(stream, pid):
            self._lines.append(line)
            self._bytes += len(line)
            self._news.set()
            while self._bytes > MAX_HELD_BYTES:
                self._room.clear()
                await self._room.wait()

    async def _read_logs(self, stream: asyncio.StreamReader, pid: int) -> None:
        while line := await line_of(stream, pid):
            self._logs.append(line)
            # The newest ones say more.
            del self._logs[:-MAX_HELD_LOGS]
            self._news.set()


async def software_on_node(software: Software, environment: Mapping[str, str]) -> str | None:
    """The folder of the npm package: installed on this node, or sent once and kept."""
    if software["usesInstalled"]:
        try:
            import sluice_ray
            from sluice_ray.node import software_directory
        except ImportError:
            pass
        else:
            directory = software_directory()
            if sluice_ray.__version__ == software["version"] and directory is not None:
                return directory
    if not software["archive"]:
        return None
    problems: list[str] = []
    for parent in kept_places(environment):
        folder = os.path.join(parent, software["digest"])
        if os.path.isdir(folder):
            return folder
        try:
            os.makedirs(parent, mode=0o700, exist_ok=True)
            if os.stat(parent).st_uid != os.getuid():
                raise PermissionError(f"{parent} belongs to another user")
            archive: bytes = await software["archive"][0]
            await asyncio.to_thread(unpack, archive, folder)
            return folder
        except OSError as error:
            problems.append(str(error))
    raise OSError("; ".join(problems))


def kept_places(environment: Mapping[str, str]) -> list[str]:
    """Where this node keeps what is sent to it: with its models, or where these cannot be kept."""
    home = environment.get("SLUICE_HOME")
    if not home:
        caches = environment.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        home = os.path.join(caches, "sluice")
    return [
        os.path.join(home, "ray"),
        os.path.join(tempfile.gettempdir(), f"sluice-ray-{os.getuid()}"),
    ]


def unpack(archive: bytes, folder: str) -> None:
    """Makes a folder from a zip archive, all of it or nothing."""
    with tempfile.TemporaryDirectory(dir=os.path.dirname(folder)) as draft:
        inside = os.path.join(draft, "software")
        with zipfile.ZipFile(io.BytesIO(archive)) as files:
            files.extractall(inside)
        try:
            os.rename(inside, folder)
        except OSError:
            # Another host of this node was faster.
            if not os.path.isdir(folder):
                raise


async def line_of(stream: asyncio.StreamReader, pid: int) -> str:
    """The next line of a process that is not empty; an empty text at the end."""
    while True:
        try:
            data = await stream.readline()
        except ValueError:
            # It is longer than any receiver would take.
            kill_group(pid)
            return ""
        line = data.decode("utf-8", "replace").rstrip("\n")
        if line or not data:
            return line


def how(code: int) -> str:
    """How a process ended, by the status of the shell beside it."""
    number = -code if code < 0 else code - 128
    if code < 0 or code > 128:
        try:
            return f"ended by {signal.Signals(number).name}"
        except ValueError:
            pass
    return f"left with code {code}"


def kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
