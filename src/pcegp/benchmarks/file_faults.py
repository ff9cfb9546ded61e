"""Model files that were damaged, forged or cut off, and saves that were killed.

    damaged   bits flipped, bytes changed, pieces removed or doubled; the digest no longer fits
    forged    made to mislead, with a digest that fits: other members, types, shapes, sizes,
              headers, a pickle, a path out of the archive, a zip bomb
    cut off   the first part of a file

Each must be refused by a ModelFileError. A forged file whose content still makes a model
may load, if the model gives finite predictions: a digest is no signature. Nothing in a file
may run, hang or take more memory than `max_gb` allows.
"""

import io
import json
import os
import pickle
import resource
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np

from pcegp._typing import FloatArray
from pcegp.benchmarks.stress import bounded
from pcegp.benchmarks.verdict import conclude
from pcegp.errors import ModelFileError, TrainingError
from pcegp.estimators import PCEGPRegressor, load

Members = dict[str, bytes]

_DIGEST = 64
_MAX_GB = 0.05
_MOST_MEMORY = 300_000_000  # bytes that all loads together may add to the process
_SECONDS = 10  # for one file
# What running code, or touching anything but the file, would show to Python's audit hooks.
_FORBIDDEN = ("exec", "os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen",
              "pickle.find_class", "socket.connect", "os.mkdir", "os.remove", "os.rename",
              "shutil.rmtree", "ctypes.dlopen")


def sealed(data: bytes) -> bytes:
    """Give bytes a digest that fits."""
    return data[:-_DIGEST] + sha256(data[:-_DIGEST]).hexdigest().encode()


def damage(whole: bytes, rng: np.random.Generator) -> bytes:
    """Damage a file as a bad disk or a bad copy does."""
    changed = bytearray(whole)
    kind = rng.integers(4)
    at, to = sorted(rng.integers(0, len(whole), 2).tolist())
    if kind == 0:
        changed[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        for position in rng.integers(0, len(whole), 20):
            changed[position] ^= int(rng.integers(1, 256))
    elif kind == 2:
        del changed[at : min(to, at + 1000) + 1]
    else:
        changed[at:at] = bytes(rng.integers(0, 256, 1 + int(rng.integers(100)), dtype=np.uint8))
    return bytes(changed)


def forge(whole: bytes, rng: np.random.Generator) -> bytes:
    """Change a file so that it misleads, with a digest that fits."""
    with zipfile.ZipFile(io.BytesIO(whole)) as old:
        members = {name: old.read(name) for name in old.namelist()}
    trick = _TRICKS[rng.integers(len(_TRICKS))]
    compression = trick(members, rng) or zipfile.ZIP_STORED
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as new:
        for name, content in members.items():
            new.writestr(name, content)
        new.comment = b"sha256:" + b"0" * _DIGEST
    return sealed(buffer.getvalue())


def _any_array(members: Members, rng: np.random.Generator) -> str:
    names = [name for name in members if name.endswith(".npy")]
    return names[rng.integers(len(names))]


def _npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def _swap(members: Members, rng: np.random.Generator) -> None:
    one, other = _any_array(members, rng), _any_array(members, rng)
    members[one], members[other] = members[other], members[one]


def _retype(members: Members, rng: np.random.Generator) -> None:
    kinds = [np.float32, np.int64, np.complex128, "S8", "datetime64[s]", ">f8"]
    name = _any_array(members, rng)
    members[name] = _npy(np.zeros(int(rng.integers(1, 50)), kinds[rng.integers(len(kinds))]))


def _claim_size(members: Members, rng: np.random.Generator) -> None:
    size = 10 ** int(rng.integers(6, 18))
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({size},), }}".ljust(117)
    members[_any_array(members, rng)] = b"\x93NUMPY\x01\x00\x76\x00" + header.encode() + b"\n"


def _pickle(members: Members, rng: np.random.Generator) -> None:
    class Harm:
        def __reduce__(self) -> Any:
            return os.mkdir, ("harm",)

    payload = pickle.dumps(Harm())
    name = _any_array(members, rng)
    members[name] = _npy(np.array([0.0]))[:-8] + payload if rng.integers(2) else payload


def _leave(members: Members, rng: np.random.Generator) -> None:
    where = ["../evil", "/evil", "arrays/../../evil.npy", "arrays/..\\evil.npy"]
    members[where[rng.integers(len(where))]] = b"x"


def _bomb(members: Members, rng: np.random.Generator) -> int:
    members[_any_array(members, rng)] = bytes(10**7)
    return zipfile.ZIP_DEFLATED


def _drop(members: Members, rng: np.random.Generator) -> None:
    del members[list(members)[rng.integers(len(members))]]


def _long_header(members: Members, rng: np.random.Generator) -> None:
    members["model.json"] = (b"[" * 200_000, b" " * 10**6, b'{"a":' * 5000)[rng.integers(3)]


def _header_value(members: Members, rng: np.random.Generator) -> None:
    """Put another value somewhere into the header."""
    header: Any = json.loads(members["model.json"])
    place, parent, key = header, header, None
    while isinstance(place, (dict, list)) and place:
        keys: list[Any] = list(place) if isinstance(place, dict) else list(range(len(place)))
        parent, key = place, keys[rng.integers(len(keys))]
        place = place[key]
    odd: list[Any] = [None, -1, 10**9, 1e300, "x", [], {}, True, "__import__('os').mkdir('harm')"]
    parent[key] = odd[rng.integers(len(odd))]
    members["model.json"] = json.dumps(header).encode()


def _byte(members: Members, rng: np.random.Generator) -> None:
    name = list(members)[rng.integers(len(members))]
    content = bytearray(members[name])
    content[rng.integers(len(content))] = rng.integers(256)
    members[name] = bytes(content)


_TRICKS: tuple[Callable[[Members, np.random.Generator], int | None], ...] = (
    _swap, _retype, _claim_size, _pickle, _leave, _bomb, _drop, _long_header, _header_value, _byte,
)


class Watch:
    """A watch on what a load does beside reading; an audit hook cannot be taken away again."""

    def __init__(self) -> None:
        self.on = False
        self.seen: Counter[str] = Counter()
        sys.addaudithook(self._hook)

    def _hook(self, event: str, _: Any) -> None:
        if self.on and event in _FORBIDDEN:
            self.seen[event] += 1


def outcome(path: Path, watch: Watch, row: FloatArray) -> str:
    """Tell what loading a file gives: refused, loaded, or what went wrong."""
    watch.on = True
    try:
        with bounded(_SECONDS):
            model = load(path, max_gb=_MAX_GB)
            return "loaded" if np.isfinite(model.predict(row)).all() else "not finite"
    except ModelFileError as error:
        return "refused" if str(error) else "refused without a reason"
    except TimeoutError:
        return "hung"
    except Exception as error:  # any other kind is the fault that is looked for
        return f"{type(error).__name__}: {error}"
    finally:
        watch.on = False


def _model() -> tuple[PCEGPRegressor, FloatArray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(30, 2))
    model = PCEGPRegressor(optimizer="nadam", max_iter=5, checkpoints=[2]).fit(X, X[:, 0] ** 2)
    return model, X.mean(axis=0)[None]


def _files(whole: bytes, damaged: int, cut: int) -> Iterator[tuple[str, bytes]]:
    """Make one file after the other; a fifth of the damaged ones are forged."""
    rng = np.random.default_rng(1)
    for number in range(damaged):
        forged = number % 5 == 0
        yield ("forged", forge(whole, rng)) if forged else ("damaged", damage(whole, rng))
    for _ in range(cut):
        yield "cut off", whole[: rng.integers(0, len(whole))]


def check_files(damaged: int, cut: int, folder: Path) -> dict[str, Any]:
    """Load many bad files, and count what happened."""
    model, row = _model()
    path = model.save(folder / "model.pcegp")
    whole, watch = path.read_bytes(), Watch()
    counts = {kind: Counter[str]() for kind in ("damaged", "forged", "cut off")}
    begin = perf_counter()
    with warnings.catch_warnings(action="ignore"):
        load(path).predict(row)  # so that nothing is imported later
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for kind, content in _files(whole, damaged, cut):
            if content != whole:
                path.write_bytes(content)
                counts[kind][outcome(path, watch, row)] += 1
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    return {
        "files": {kind: dict(found) for kind, found in counts.items()},
        "forbidden_events": dict(watch.seen),
        "memory_growth_bytes": grown,
        "seconds": perf_counter() - begin,
        "leftovers": [p.name for p in folder.iterdir() if p.name != "model.pcegp"],
    }


_SAVER = """
import sys, pcegp
model = pcegp.load(sys.argv[1])
earlier = model.at_checkpoint(2)
print("ready", flush=True)
while True:
    earlier.save(sys.argv[1])
    model.save(sys.argv[1])
"""


def check_kills(count: int, folder: Path) -> dict[str, int]:
    """Kill a process that saves again and again; the file must always be whole."""
    model, _ = _model()
    path = model.save(folder / "saved.pcegp")
    rng, found = np.random.default_rng(2), Counter[str]()
    for _ in range(count):
        saver = subprocess.Popen([sys.executable, "-c", _SAVER, str(path)],  # noqa: S603
                                 stdout=subprocess.PIPE)
        if saver.stdout is None or not saver.stdout.readline():
            raise TrainingError("the process that saves did not start")
        sleep(rng.uniform(0, 0.05))
        saver.kill()
        saver.communicate()
        try:
            load(path)
            found["whole"] += 1
        except ModelFileError:
            found["broken"] += 1
    return dict(found)


def main(damaged: int, cut: int, kills: int, json_path: Path | None,
         echo: Callable[[str], None]) -> None:
    """Run both checks and say what was found; a fault is an error at the end."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        figures = check_files(damaged, cut, folder)
        figures["kills"] = check_kills(kills, folder)
    for kind, found in figures["files"].items():
        echo(f"{kind:8s} " + ", ".join(f"{count} {what}" for what, count in found.items()))
    echo(f"{sum(figures['kills'].values())} saves killed: "
         + ", ".join(f"{count} files {what}" for what, count in figures["kills"].items()))
    echo(f"code run or other files touched: {figures['forbidden_events'] or 'never'}; memory grew "
         f"by {figures['memory_growth_bytes'] / 1e6:.0f} MB; {figures['seconds']:.0f} s")
    conclude(faults_of(figures), "All as it must be.", figures, json_path, echo)


def faults_of(figures: dict[str, Any]) -> list[str]:
    """List what did not end as it must."""
    right = {"damaged": {"refused"}, "cut off": {"refused"}, "forged": {"refused", "loaded"}}
    faults = [f"{kind}: {count} {what}" for kind, found in figures["files"].items()
              for what, count in found.items() if what not in right[kind]]
    faults += [f"a file ran {event}" for event in figures["forbidden_events"]]
    faults += [f"{name} was left" for name in figures["leftovers"]]
    if figures["memory_growth_bytes"] >= _MOST_MEMORY:
        faults.append(f"memory grew by {figures['memory_growth_bytes'] / 1e6:.0f} MB")
    if broken := figures["kills"].get("broken"):
        faults.append(f"{broken} files of killed saves are broken")
    return faults
