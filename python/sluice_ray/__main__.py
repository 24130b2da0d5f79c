"""The bridge between a coordinator and a Ray cluster, below the coordinator.

It starts hosts, passes lines on in both directions, and tells which hosts and nodes are gone. It
holds no task and no row, and repeats nothing: the coordinator decides. JSON lines come on stdin and
go to the descriptor that was stdout; Ray's own output to stdout goes to stderr.
"""

import asyncio
import hashlib
import json
import os
import re
import sys
import threading
import traceback
import zipfile
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from . import __version__
from . import host as host_module
from . import node as node_module

# How long one call of a host waits for news, and by how much a loop may be late that still counts.
TAKE_SECONDS = 0.5
STALL_SECONDS = 1.0
# Interval between two looks at the nodes of the cluster.
NODES_SECONDS = 1.0
# Time for one of these looks, and to reach a node at all.
LOOK_SECONDS = 60.0
REACH_SECONDS = 0.5
# Time that Ray may take to connect.
CONNECT_SECONDS = 60.0
# Calls of Ray that may block at once.
MAX_THREADS = 64

# Files of the npm package that a worker does not need.
UNSENT = re.compile(r"\.d\.ts$|__pycache__|/sluice_ray/")

Json = dict[str, Any]


class HostState:
    """What the bridge knows of a host."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.actor: Any = None
        self.node: str | None = None
        self.answered = 0.0
        # Lines for its worker; None once it has ended.
        self.waiting: list[str] | None = []
        self.more = asyncio.Event()


class Bridge:
    """One connection to a cluster."""

    def __init__(self, send: Callable[[Json], None]) -> None:
        import ray

        self._ray = ray
        self._send = send
        self._hosts: dict[str, HostState] = {}
        self._nodes: dict[str, Json] = {}
        self._options: Json = {}
        self._software: Json = {}
        # The archive of Sluice in Ray's object store, on its way there.
        self._kept: asyncio.Future[Any] | None = None
        # The job's environment with Node.js, once a node lacks it; empty where that cannot be.
        self._environment: Json | None = None
        for module in (host_module, node_module):
            ray.cloudpickle.register_pickle_by_value(module)
        self._actor_class = ray.remote(host_module.Host)
        self._tasks: set[asyncio.Task[None]] = set()
        self._told: str | None = None

    async def obey(self, message: Json) -> None:
        kind = message["type"]
        if kind == "cluster-open":
            await self._open(message)
        elif kind == "host-start":
            host = self._hosts[message["host"]] = HostState(message["host"])
            self._spawn(self._run_host(host, message))
        elif kind == "lines":
            host_or_none = self._hosts.get(message["host"])
            if host_or_none is not None and host_or_none.waiting is not None:
                host_or_none.waiting.extend(message["lines"])
                host_or_none.more.set()
        elif kind == "host-kill":
            known = self._hosts.get(message["host"])
            if known is not None:
                await self._end(known, message.get("reason", "it was ended"))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # The cluster

    async def _open(self, options: Json) -> None:
        self._options = options
        failed = "setup"
        try:
            digest, archive = await in_thread(self._archive)
            failed = "unreachable"
            await asyncio.wait_for(in_thread(self._connect), CONNECT_SECONDS)
            await self._look_at_nodes()
        except asyncio.TimeoutError:
            reason = "the cluster does not answer"
            return self._send({"type": "cluster-failed", "problem": failed, "reason": reason})
        except Exception as error:
            return self._send({"type": "cluster-failed", "problem": failed, "reason": brief(error)})
        # Ray's first object takes a fifth of a second, and the coordinator plans meanwhile.
        self._kept = asyncio.ensure_future(in_thread(self._ray.put, archive)) if archive else None
        self._software = {
            "version": __version__,
            "digest": digest,
            "usesInstalled": options["software"] != "send",
        }
        self._send(
            {
                "type": "cluster-ready",
                "ray": self._ray.__version__,
                "nodes": list(self._nodes.values()),
            }
        )
        self._spawn(self._watch_nodes())

    def _archive(self) -> tuple[str, bytes]:
        """The JavaScript of Sluice for nodes that lack it."""
        if self._options["software"] == "installed":
            return "", b""
        source = node_module.software_directory()
        if source is None:
            raise RuntimeError("the JavaScript of Sluice is not built: npm run build")
        return software_archive(source, self._options["staging"])

    def _connect(self) -> None:
        self._ray.init(
            address=self._options.get("address") or "auto",
            runtime_env=self._options.get("runtimeEnv") or None,
            log_to_driver=False,
            logging_level="ERROR",
        )

    async def _watch_nodes(self) -> None:
        while True:
            await asyncio.sleep(NODES_SECONDS)
            try:
                await asyncio.wait_for(self._look_at_nodes(), LOOK_SECONDS)
            except Exception as error:
                # The head may be away for a moment; Ray ends this process if it stays away.
                log(f"nodes of the cluster are unknown: {brief(error)}")
                continue
            self._tell_nodes()

    async def _look_at_nodes(self) -> None:
        nodes, draining = await in_thread(self._nodes_now)
        self._nodes = {
            node["NodeID"]: {
                "id": node["NodeID"],
                "name": node.get("NodeManagerHostname") or node.get("NodeName") or "",
                "address": node["NodeManagerAddress"],
                "port": node["NodeManagerPort"],
                "alive": bool(node["Alive"]),
                "resources": node.get("Resources") or {},
                "labels": node.get("Labels") or {},
                "drainsAt": draining.get(node["NodeID"]),
            }
            for node in nodes
            if node["Alive"] or node["NodeID"] in self._nodes
        }

    def _nodes_now(self) -> Any:
        try:
            draining = self._ray._private.state.state.get_draining_nodes()
        except AttributeError:
            # A release of Ray that tells of no notices.
            draining = {}
        return self._ray.nodes(), draining

    def _tell_nodes(self) -> None:
        nodes = list(self._nodes.values())
        text = json.dumps(nodes, sort_keys=True)
        if text != self._told:
            self._told = text
            self._send({"type": "cluster-nodes", "nodes": nodes})

    # Hosts

    async def _run_host(self, host: HostState, start: Json) -> None:
        environment = self._environment
        try:
            facts = await self._placed(host, start, environment)
            if facts.get("lacksNode") and environment is None and host.waiting is not None:
                given = self._options.get("runtimeEnv") or {}
                self._environment = with_package(given, self._options["nodePackage"])
                if self._environment:
                    self._kill(host.actor)
                    facts = await self._placed(host, start, self._environment)
        except Exception as error:
            # Of these, others would be the same: the job's environment, what hosts book, our fault.
            errors = self._ray.exceptions
            same = (errors.RuntimeEnvSetupError, errors.RayTaskError, ValueError, TypeError)
            is_final = isinstance(error, same)
            return self._refuse(host, brief(error), isFinal=is_final)
        if host.waiting is None:
            # It was ended while it was about to start.
            return
        if "problem" in facts:
            node, address = facts["node"], facts["address"]
            return self._refuse(host, f"node {address}: {facts['problem']}", node=node)
        host.node = facts["node"]
        self._send({"type": "host-ready", "host": host.name, **facts})
        self._spawn(self._put(host))
        await self._take(host)

    async def _placed(self, host: HostState, start: Json, environment: Json | None) -> Json:
        """Starts an actor; the cluster may have no room for long: the coordinator decides."""
        options = self._actor_options(start, environment)
        actor = await in_thread(lambda: self._actor_class.options(**options).remote())
        if host.waiting is None:
            # It was ended meanwhile.
            self._kill(actor)
            return {}
        host.actor = actor
        archive = [await self._kept] if self._kept else []
        more = {"software": {**self._software, "archive": archive}, "nodes": self._options["nodes"]}
        facts: Json = await as_future(actor.start.remote({**start["start"], **more}))
        return facts

    def _refuse(self, host: HostState, reason: str, **more: Any) -> None:
        if host.waiting is None:
            return
        self._forget(host)
        if host.actor is not None:
            self._kill(host.actor)
        self._send({"type": "host-refused", "host": host.name, "reason": reason, **more})

    def _actor_options(self, start: Json, environment: Json | None) -> Json:
        asked = start["resources"]
        strategy = self._ray.util.scheduling_strategies
        selector = dict(start.get("labels") or {})
        if start.get("avoid"):
            selector["ray.io/node-id"] = f"!in({','.join(start['avoid'])})"
        placed: Any = "SPREAD" if start["strategy"] == "SPREAD" else "DEFAULT"
        if start.get("near"):
            # Without it, the actor waits for that node while others have room.
            placed = strategy.NodeAffinitySchedulingStrategy(
                start["near"], soft=True, _spill_on_unavailable=True
            )
        return {
            "num_cpus": asked["cpu"],
            "num_gpus": asked["gpu"],
            "max_restarts": 0,
            "max_task_retries": 0,
            # Of its calls, one waits for lines, one brings some, and one may end it.
            "max_concurrency": 8,
            "scheduling_strategy": placed,
            "resources": asked["custom"],
            **({"memory": asked["memory"]} if asked.get("memory") else {}),
            **({"accelerator_type": asked["accelerator"]} if asked.get("accelerator") else {}),
            **({"label_selector": selector} if selector else {}),
            **({"runtime_env": environment} if environment else {}),
        }

    async def _take(self, host: HostState) -> None:
        while host.waiting is not None:
            try:
                taken = await self._answer(host, host.actor.take.remote(TAKE_SECONDS))
            except Exception as error:
                return await self._lose(host, error)
            host.answered = asyncio.get_running_loop().time()
            if host.waiting is None:
                return
            for kind in ("lines", "logs"):
                if taken[kind]:
                    self._send({"type": kind, "host": host.name, "lines": taken[kind]})
            if taken["end"] is not None:
                return await self._end(host, taken["end"])

    async def _put(self, host: HostState) -> None:
        # One call at a time keeps the order, and what comes meanwhile goes together.
        while host.waiting is not None:
            if not host.waiting:
                host.more.clear()
                await host.more.wait()
                continue
            lines, host.waiting = host.waiting, []
            try:
                await as_future(host.actor.put.remote(lines))
            except Exception:
                # `_take` finds out as well, and says why.
                return

    async def _answer(self, host: HostState, ref: Any) -> Any:
        """The answer of a host; `TimeoutError` if it is silent or its node cannot be reached."""
        answer = as_future(ref)
        loop = asyncio.get_running_loop()
        silent = 0.0
        while True:
            before = loop.time()
            done, _ = await asyncio.wait({answer}, timeout=TAKE_SECONDS)
            if done or host.waiting is None:
                return await answer if done else {}
            # If this process was stopped, the host's answer may still wait for it.
            if loop.time() - before < STALL_SECONDS:
                silent += TAKE_SECONDS
            if silent >= self._options["silenceSeconds"]:
                raise TimeoutError(f"its host did not answer for {silent:.0f} s")
            if silent >= 2 * TAKE_SECONDS and not await self._is_reachable(host):
                raise TimeoutError("its node cannot be reached")

    async def _is_reachable(self, host: HostState) -> bool:
        """False if Ray's process on the node of a host is gone."""
        node = self._nodes.get(host.node or "")
        if node is None or not node["alive"]:
            return False
        try:
            opening = asyncio.open_connection(node["address"], node["port"])
            _, writer = await asyncio.wait_for(opening, REACH_SECONDS)
            writer.close()
            return True
        except asyncio.TimeoutError:
            # It is slow, or a wall lies between: silence decides.
            return True
        except OSError:
            return False

    async def _lose(self, host: HostState, error: Exception) -> None:
        # An actor may die alone, by the kernel or by a row; a node takes everything with it.
        is_alone = isinstance(error, self._ray.exceptions.ActorDiedError)
        is_lost = not (is_alone and await self._is_reachable(host))
        reason = str(error) if isinstance(error, TimeoutError) else brief(error)
        suspect = host.node if is_lost and not self._has_living_host(host) else None
        await self._end(host, reason, is_lost, suspect)

    def _has_living_host(self, lost: HostState) -> bool:
        """Whether another host of the same node has just answered."""
        since = asyncio.get_running_loop().time() - 2 * TAKE_SECONDS
        others = (each for each in self._hosts.values() if each is not lost)
        return any(each.node == lost.node and each.answered >= since for each in others)

    async def _end(
        self, host: HostState, reason: str, is_lost: bool = False, suspect: str | None = None
    ) -> None:
        if host.waiting is None:
            return
        actor = host.actor
        self._forget(host)
        self._send(
            {
                "type": "host-end",
                "host": host.name,
                "reason": reason,
                "isLost": is_lost,
                **({"suspect": suspect} if suspect else {}),
            }
        )
        if actor is not None:
            self._kill(actor)

    def _kill(self, actor: Any) -> None:
        # It may block while a node does not answer.
        self._spawn(in_thread(lambda: self._ray.kill(actor, no_restart=True)))

    def _forget(self, host: HostState) -> None:
        host.waiting = None
        host.more.set()
        self._hosts.pop(host.name, None)


def software_archive(source: str, staging: str) -> tuple[str, bytes]:
    """A zip archive of what nodes need of the npm package, with its digest; made once and kept."""
    parts = [os.path.join(source, it) for it in ("dist", "python", "schema", "package.json")]
    files = [file for part in parts for file in files_in(part)]
    digest = digest_of(files)
    kept = os.path.join(staging, f"{digest}.zip")
    if not os.path.exists(kept):
        os.makedirs(staging, exist_ok=True)
        draft = f"{kept}.{os.getpid()}"
        with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in files:
                archive.write(file, os.path.relpath(file, source))
        os.replace(draft, kept)
    with open(kept, "rb") as opened:
        return digest, opened.read()


def files_in(place: str) -> list[str]:
    if os.path.isfile(place):
        return [place]
    files = (os.path.join(folder, name) for folder, _, names in os.walk(place) for name in names)
    return sorted(file for file in files if not UNSENT.search(file))


def digest_of(files: list[str]) -> str:
    """A short digest of files by their names, sizes and times."""
    digest = hashlib.sha256()
    for file in files:
        stat = os.stat(file)
        digest.update(f"{file} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def with_package(environment: Json, package: str) -> Json:
    """A runtime environment with one more package of pip or uv; empty where that cannot be."""
    key = "uv" if "uv" in environment else "pip"
    if "conda" in environment or "image_uri" in environment or "container" in environment:
        # Ray takes only one of them.
        return {}
    given = environment.get(key) or []
    if isinstance(given, dict):
        packages: Any = {**given, "packages": [*given.get("packages", []), package]}
    elif isinstance(given, str):
        with open(given, encoding="utf-8") as file:
            packages = [*filter(None, (line.strip() for line in file)), package]
    else:
        packages = [*given, package]
    return {**environment, key: packages}


def as_future(ref: Any) -> "asyncio.Future[Any]":
    return asyncio.wrap_future(ref.future())


async def in_thread(work: Callable[..., Any], *arguments: Any) -> Any:
    return await asyncio.get_running_loop().run_in_executor(None, lambda: work(*arguments))


def brief(error: BaseException) -> str:
    """The lines of an error that say why: Ray's texts are long, and hold whole stacks."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if any(line.startswith('File "') for line in lines):
        lines = lines[-1:]
    return "; ".join(lines[:4])[:600] or type(error).__name__


def log(text: str) -> None:
    print(f"sluice_ray: {text}", file=sys.stderr, flush=True)


def private_output() -> Callable[[Json], None]:
    """Sends messages to what was stdout, which from now on only this has."""
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def send(message: Json) -> None:
        output.write(json.dumps(message, separators=(",", ":")) + "\n")
        output.flush()

    return send


async def serve(send: Callable[[Json], None]) -> None:
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(MAX_THREADS))
    # Late errors of hosts that were given up.
    loop.set_exception_handler(lambda _, context: log(str(context.get("exception") or context)))
    messages: asyncio.Queue[Json | None] = asyncio.Queue()

    def read() -> None:
        for line in sys.stdin:
            if line.strip():
                loop.call_soon_threadsafe(messages.put_nowait, json.loads(line))
        loop.call_soon_threadsafe(messages.put_nowait, None)

    bridge = Bridge(send)
    threading.Thread(target=read, daemon=True).start()
    while (message := await messages.get()) is not None:
        await bridge.obey(message)


def main() -> None:
    send = private_output()
    try:
        import ray  # noqa: F401
    except ImportError as error:
        send({"type": "cluster-failed", "problem": "missing", "reason": str(error)})
        return
    code = 0
    try:
        asyncio.run(serve(send))
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stderr.flush()
    # Ray's own end takes a second; the cluster ends the actors of a driver that is gone.
    os._exit(code)


if __name__ == "__main__":
    main()
