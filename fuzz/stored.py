"""Inputs on disk: files of cases, checkpoints and runs, settings, generations and evaluations."""

import hashlib
import json
import os
import pickle
import shutil
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np

import disol
from attempts import (
    Attempt,
    WrongAnswer,
    anything,
    chance,
    hostile_text,
    mutated,
    odd_file,
    pick,
    short,
)
from disol.data import describe, export_npz, open_store
from disol.training.config import choose_settings

STORES = {
    "poisson": ("poisson", 6, "paper"),
    "heat": ("heat", 2, "paper"),
    "elasticity": ("elasticity", 5, "published"),
}
SMALL = {"width": 4, "depth": 2, "gated_skips": 1}


def template_folder() -> Path:
    """Return where this process keeps files that inputs are made of."""
    folder = Path(os.environ["DISOL_FUZZ_TEMPLATES"])
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@cache
def store_of(name: str) -> bytes:
    """Return a file of a few cases."""
    problem, cases, conventions = STORES[name]
    path = template_folder() / f"{name}-{os.getpid()}.h5"
    path.unlink(missing_ok=True)
    options: dict[str, Any] = {"resolution": 16, "workers": 0, "device": "cpu", "progress": False}
    disol.generate(problem, cases, path, conventions=conventions, **options)
    return path.read_bytes()


@cache
def arrays_of(name: str) -> dict[str, np.ndarray]:
    """Return what a file holds when it is whole."""
    path = template_folder() / f"{name}-{os.getpid()}-whole.h5"
    path.write_bytes(store_of(name))
    return open_store(path).read()


def stores(rng: np.random.Generator, folder: Path) -> Attempt:
    """Read files of cases: damaged bytes, other attributes, other datasets, links, bombs, and files that are none."""
    name = pick(rng, list(STORES))
    path = folder / "cases.h5"
    path.write_bytes(store_of(name))
    kind = pick(rng, ["bytes", "bytes", "bytes", "attribute", "attribute", "dataset", "dataset", "odd", "whole"])
    text = f"{name} with {kind}"
    if kind == "bytes":
        path.write_bytes(mutated(rng, store_of(name)))
    elif kind == "attribute":
        text += f" {change_attribute(rng, path)}"
    elif kind == "dataset":
        text += f" {change_dataset(rng, path, folder)}"
    elif kind == "odd":
        text += f" {odd_file(rng, path, store_of(name), folder.parent / 'bystander')}"
    use = pick(rng, ["read", "read", "read", "describe", "export", "dataset", "evaluate", "train", "resume"])
    return Attempt(
        f"{use} {text}", lambda: use_store(use, name, path, folder, altered_by_accident=kind in ("bytes", "whole"))
    )


def use_store(use: str, name: str, path: Path, folder: Path, altered_by_accident: bool) -> None:
    """Do with a file what users do; what is read of a file that was damaged must be what it held."""
    if use == "read":
        found = open_store(path).read()
        if altered_by_accident:
            whole = arrays_of(name)
            wrong = [each for each in whole if each not in found or not np.array_equal(found[each], whole[each])]
            if wrong:
                raise WrongAnswer(f"damage of {', '.join(wrong)} was not noticed")
    elif use == "describe":
        describe(path)
    elif use == "export":
        export_npz(path, folder / "cases.npz")
    elif use == "dataset":
        dataset = disol.CaseDataset(path, split="all")
        for place in range(min(len(dataset), 3)):
            dataset[place]
        dataset.to_device("cpu")
    elif use == "evaluate":
        disol.evaluate(STORES[name][0], path, device="cpu", progress=False)
    elif use == "train":
        settings = ["train.epochs=1", "train.batch_size=1"]
        disol.train(
            STORES[name][0],
            path,
            folder / "run",
            overrides=settings,
            model_settings=SMALL,
            device="cpu",
            progress=False,
        )
    else:
        problem, cases, conventions = STORES[name]
        options: dict[str, Any] = {"resolution": 16, "workers": 0, "device": "cpu", "progress": False, "resume": True}
        disol.generate(problem, cases, path, conventions=conventions, **options)


def change_attribute(rng: np.random.Generator, path: Path) -> str:
    """Write another value into an attribute of a file."""
    with h5py.File(path, "r+") as file:
        owner = file if chance(rng, 0.8) else file[pick(rng, list(file))]
        names = list(owner.attrs) or ["encoding"]
        name = pick(rng, names)
        value = pick(
            rng,
            [
                *(0, 1, -1, 7, 16, 17, 10**6, 4 * 10**8, 2**31, 2**62, 1.5, float("nan"), float("inf"), True),
                *(
                    "",
                    "poisson",
                    "heat",
                    "x" * 10**4,
                    "{",
                    "[]",
                    '{"diffusion": NaN}',
                    '{"diffusion": 1e999}',
                    "[" * 10**5,
                ),
                *(
                    [],
                    [""],
                    ["domain"],
                    ["u"],
                    [1, 2],
                    ["domain", "dirichlet", "source"],
                    ["x"] * 300,
                    [[1, 2], [3, 4]],
                ),
                *(b"bytes", "ä\u2028", '{"diffusion": {}}', '{"velocity": [1]}', '{"velocity": "ab"}', "null", "3"),
            ],
        )
        with suppress(Exception):
            del owner.attrs[name]
        if chance(rng, 0.1):
            return f"{name} removed"
        kind = pick(rng, ["plain", "plain", "plain", "empty", "compound", "reference", "bytes"])
        if kind == "empty":
            owner.attrs[name] = h5py.Empty("f8")
        elif kind == "compound":
            owner.attrs[name] = np.zeros(2, dtype=[("a", "i4"), ("b", "f8")])
        elif kind == "reference":
            owner.attrs[name] = file.ref
        elif kind == "bytes":
            owner.attrs[name] = np.bytes_(b"\xff\xfe\x00x")
        else:
            with suppress(TypeError, ValueError, OSError):
                owner.attrs[name] = value
        return f"{name} of {owner.name} as {kind} {short(value, 40)}"


def change_dataset(rng: np.random.Generator, path: Path, folder: Path) -> str:
    """Put another dataset, or a link, in the place of one of a file."""
    with h5py.File(path, "r+") as file:
        names: list[str] = []
        file.visititems(lambda name, own: names.append(name) if isinstance(own, h5py.Dataset) else None)
        name = pick(rng, names)
        old = file[name]
        shape, dtype, values = old.shape, old.dtype, old[...]
        kind = pick(
            rng,
            [
                *(
                    "values",
                    "values",
                    "removed",
                    "group",
                    "soft link",
                    "loop",
                    "external link",
                    "shape",
                    "dtype",
                    "text",
                ),
                *("compressed", "bomb", "chunked", "external data", "virtual", "scalar", "empty", "times"),
            ],
        )
        if kind == "values":
            flat = values.reshape(-1)
            odd = (
                pick(rng, [0, 1, 2, 255, -1, 10**9])
                if dtype.kind in "iu"
                else pick(rng, [np.nan, np.inf, -1.0, 1e300, 0.0])
            )
            with np.errstate(all="ignore"):
                flat[rng.integers(len(flat)) if chance(rng, 0.5) else slice(None)] = np.array(odd).astype(dtype)
            old[...] = values
            return f"{name} values {odd}"
        del file[name]
        if kind == "group":
            file.create_group(name)
        elif kind == "soft link":
            file[name] = h5py.SoftLink(pick(rng, ["/", "/nowhere", "/done", "/channels", f"/{name}"]))
        elif kind == "loop":
            file[name] = h5py.SoftLink(f"/{name}")
        elif kind == "external link":
            file[name] = h5py.ExternalLink(
                pick(rng, ["cases.h5", "/dev/zero", "../bystander/thesis.tex", str(path)]), name
            )
        elif kind == "shape":
            other = pick(rng, [(0,), (1,), (10**6,), (*shape, 2), shape[1:], tuple(reversed(shape)), (2, *shape[1:])])
            file.create_dataset(name, other, dtype, fillvalue=0)
        elif kind == "dtype":
            other_type = pick(rng, [">f4", "f2", "f8", "c8", "S5", "i1", "u8", "?", h5py.string_dtype(), [("a", "f4")]])
            file.create_dataset(name, shape, other_type)
        elif kind == "compressed":
            file.create_dataset(name, data=values, compression="gzip")
        elif kind == "bomb":
            size = pick(rng, [10**7, 10**9, 5 * 10**10])
            file.create_dataset(name, (size,), dtype, compression="gzip", chunks=(10**5,), fillvalue=1)
        elif kind == "times":
            with suppress(KeyError):
                del file["times"]
            size = pick(rng, [1, 3, 10**6, 10**9])
            file.create_dataset("times", (size,), "f8", compression="gzip", chunks=(min(size, 10**5),), fillvalue=2.0)
        elif kind == "chunked":
            file.create_dataset(name, data=values, chunks=True)
        elif kind == "external data":
            (folder / "raw.bin").write_bytes(values.tobytes())
            target = pick(rng, ["raw.bin", "/dev/zero", "../bystander/thesis.tex", "nowhere"])
            file.create_dataset(name, shape, dtype, external=[(target, 0, values.nbytes)])
        elif kind == "virtual":
            layout = h5py.VirtualLayout(shape, dtype)
            layout[...] = h5py.VirtualSource(pick(rng, [".", "nowhere.h5", "/dev/zero"]), "done", shape)
            file.create_virtual_dataset(name, layout)
        elif kind == "scalar":
            file[name] = 3.0
        elif kind == "empty":
            file[name] = h5py.Empty("f4")
        elif kind == "text":
            file[name] = "text"
        return f"{name} {kind}"


@cache
def run_template() -> Path:
    """Train a small network for two epochs, and keep its run, its last state and its data."""
    folder = template_folder() / f"run-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "cases.h5").write_bytes(store_of("poisson"))
    settings = ["train.epochs=2", "train.batch_size=2"]
    options: dict[str, Any] = {"model_settings": SMALL, "device": "cpu", "progress": False}
    disol.train("poisson", folder / "cases.h5", folder / "run", overrides=settings, **options)
    from disol.models import load_checkpoint, save_checkpoint

    best = load_checkpoint(folder / "run")
    state = {"epoch": 1, "seconds": 1.0, "run": best.metrics["run"], "rng": [1, 2.0, "x"]}
    save_checkpoint(folder / "stateful", best.network, "poisson", resolution=16, metrics=best.metrics, state=state)
    return folder


@cache
def expected_pattern() -> np.ndarray:
    """Return what the whole checkpoint predicts."""
    return predicted(run_template() / "run")


def predicted(run: Path) -> np.ndarray:
    """Predict one case."""
    case = disol.draw("poisson", 3, resolution=16, conventions="paper")
    return disol.load(run, device="cpu").predict_pattern(case.inputs[None])


def checkpoints(rng: np.random.Generator, folder: Path) -> Attempt:
    """Load, evaluate, resume and fine-tune runs whose files are damaged, forged, replaced by links, or missing."""
    source = run_template()
    run = folder / "run"
    name = pick(rng, ["run", "run", "stateful"])
    shutil.copytree(source / name, run)
    shutil.copy(source / "cases.h5", folder / "cases.h5")
    bystander = folder.parent / "bystander"
    kind = pick(
        rng,
        ["bytes", "bytes", "config", "config", "weights", "metrics", "state", "odd", "odd", "incoming", "evaluation"],
    )
    file = run / pick(rng, ["config.json", "model.safetensors", "metrics.json"])
    text = kind
    if kind == "bytes":
        file.write_bytes(mutated(rng, file.read_bytes()))
        text += f" of {file.name}"
        if chance(rng, 0.3):
            sign(run)
            text += ", signed"
    elif kind == "config":
        text += f" {forge_config(rng, run)}"
    elif kind == "weights":
        text += f" {forge_weights(rng, run)}"
    elif kind == "metrics":
        forged = pick(
            rng,
            [
                "[]",
                "3",
                "null",
                "{",
                '{"run": 3}',
                '{"run": {}}',
                "[" * 10**5,
                '{"finished": true}',
                "\xff",
                "NaN",
                '{"run": {"data.num_cases": 9e99}}',
            ],
        )
        (run / "metrics.json").write_text(forged)
        sign(run)
        text += f" {forged[:40]}"
    elif kind == "state":
        text += f" {forge_state(rng, run)}"
    elif kind == "odd":
        text += f" {file.name}: {odd_file(rng, file, file.read_bytes(), bystander)}"
    elif kind == "incoming":
        text += f" {plant_incoming(rng, run, bystander)}"
    else:
        text += f" {forge_evaluation(rng, run / 'evaluation')}"
    use = (
        "evaluate"
        if kind == "evaluation"
        else pick(rng, ["load", "load", "state", "evaluate", "resume", "start", "save", "list"])
    )
    careless = kind == "bytes" and "signed" not in text
    return Attempt(f"{use} {name} with {text}", lambda: use_run(use, run, folder / "cases.h5", careless))


def use_run(use: str, run: Path, data: Path, careless: bool) -> None:
    """Do with the folder of a run what users do; what is loaded of one that was damaged must be what was saved."""
    from disol.models import load_checkpoint, save_checkpoint

    settings = ["train.epochs=2", "train.batch_size=2"]
    options: dict[str, Any] = {"overrides": settings, "device": "cpu", "progress": False}
    if use == "load":
        found = predicted(run)
        if not np.isfinite(found).all():
            raise WrongAnswer("a network that predicts what is not finite was loaded")
        if careless and not np.array_equal(found, expected_pattern()):
            raise WrongAnswer("damage of a checkpoint was not noticed")
    elif use == "state":
        load_checkpoint(run, state=True)
    elif use == "evaluate":
        disol.evaluate(run, data, out=run / "evaluation", device="cpu", progress=False)
    elif use == "resume":
        disol.train("poisson", data, run, resume=True, model_settings=SMALL, **options)
    elif use == "start":
        disol.train("poisson", data, run.parent / "tuned", start=run, **options)
    elif use == "save":
        save_checkpoint(run, disol.create_model("disol", "poisson", **SMALL), "poisson", resolution=16)
    else:
        repr(load_checkpoint(run))


def sign(run: Path) -> None:
    """Write the digests of the files of a checkpoint into its card, as whoever forges one does."""
    with suppress(ValueError, OSError, KeyError, TypeError, AttributeError):
        card = json.loads((run / "config.json").read_text())
        for name in card["files"]:
            card["files"][name] = hashlib.sha256((run / name).read_bytes()).hexdigest()
        (run / "config.json").write_text(json.dumps(card))


def forge_config(rng: np.random.Generator, run: Path) -> str:
    """Write another value into a card."""
    path = run / "config.json"
    card = json.loads(path.read_text())
    inner = pick(rng, ["model_config", "model_config", "parameters", "files", None, None])
    owner = card if inner is None else card[inner]
    name = pick(rng, list(owner)) if chance(rng, 0.95) else "unknown"
    value: Any = pick(
        rng,
        [
            *(
                0,
                1,
                2,
                -1,
                3,
                4000,
                10**6,
                10**9,
                2**63,
                10**400,
                1.5,
                1e308,
                True,
                False,
                None,
                "",
                "x" * 10**5,
                "disol",
                "unet",
            ),
            *(
                [],
                [1],
                [[]],
                {},
                {"a": 1},
                "float16",
                "heat",
                "published",
                "component",
                "os:system",
                "../x",
                "subprocess:run",
            ),
            *(
                float("nan"),
                float("inf"),
                ["domain"],
                [0.0, 1.0],
                {"model.safetensors": 3},
                {"../bystander/thesis.tex": "0"},
            ),
        ],
    )
    if chance(rng, 0.1):
        owner.pop(name, None)
    else:
        owner[name] = value
    if chance(rng, 0.1):
        owner[name] = json.loads("[" * 500 + "]" * 500)
    path.write_text(json.dumps(card))
    if chance(rng, 0.5):
        sign(run)
    return f"{inner or 'card'}.{name} = {short(value, 40)}"


def forge_weights(rng: np.random.Generator, run: Path) -> str:
    """Write other weights, and sign them."""
    path = run / "model.safetensors"
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    header, data = json.loads(content[8 : 8 + size]), bytearray(content[8 + size :])
    names = [name for name in header if name != "__metadata__"]
    name, kind = (
        pick(rng, names),
        pick(rng, ["nan", "inf", "huge", "shape", "dtype", "missing", "extra", "offsets", "size", "deep"]),
    )
    if kind in ("nan", "inf", "huge"):
        value = {"nan": np.nan, "inf": np.inf, "huge": 3e38}[kind]
        start, end = header[name]["data_offsets"]
        data[start:end] = np.full((end - start) // 4, value, "<f4").tobytes()
    elif kind == "shape":
        header[name]["shape"] = pick(rng, [[], [0], [2**40, 2**40], [-1], header[name]["shape"][::-1], [1] * 100, "x"])
    elif kind == "dtype":
        header[name]["dtype"] = pick(rng, ["F64", "F16", "I64", "BOOL", "F8", "x", "C64"])
    elif kind == "missing":
        del header[name]
    elif kind == "extra":
        header["more.weight"] = {"dtype": "F32", "shape": [0], "data_offsets": [len(data), len(data)]}
    elif kind == "offsets":
        header[name]["data_offsets"] = pick(rng, [[0, 2**62], [10, 5], [-4, 0], [0, 4], [0.5, 1]])
    elif kind == "deep":
        header["__metadata__"] = {"x": "y" * 10**6}
    packed = json.dumps(header).encode()
    length = pick(rng, [0, 2**63, 2**32, len(packed) + 1]) if kind == "size" else len(packed)
    path.write_bytes(struct.pack("<Q", length) + packed + bytes(data))
    sign(run)
    return f"{name} {kind}"


class Payload:
    """What runs code when it is unpickled."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str, str]]:
        return open, ("hacked", "w")


def forge_state(rng: np.random.Generator, run: Path) -> str:
    """Write another state of a run, and list it in the card."""
    kind = pick(rng, ["pickle", "bytes", "zip", "empty", "text"])
    state = run / "state.pt"
    old = state.read_bytes() if state.exists() else (run_template() / "stateful" / "state.pt").read_bytes()
    content = {
        "pickle": pickle.dumps(Payload()),
        "bytes": mutated(rng, old),
        "zip": b"PK\x05\x06" + bytes(18),
        "empty": b"",
        "text": b"state",
    }[kind]
    state.write_bytes(content)
    card = json.loads((run / "config.json").read_text())
    card["files"]["state.pt"] = hashlib.sha256(content).hexdigest()
    (run / "config.json").write_text(json.dumps(card))
    return kind


def plant_incoming(rng: np.random.Generator, run: Path, bystander: Path) -> str:
    """Leave what looks like an unfinished change of the folder: a link, or files that are none of a checkpoint."""
    kind = pick(rng, ["link", "last link", "strange files", "link inside", "file", "unfinished link"])
    incoming = run / "incoming"
    if kind == "link":
        incoming.symlink_to(bystander)
    elif kind == "last link":
        (run / "last").symlink_to(bystander)
    elif kind == "unfinished link":
        (run / ".unfinished-abcd").symlink_to(bystander)
    elif kind == "file":
        incoming.write_text("x")
    else:
        incoming.mkdir()
        if kind == "strange files":
            (incoming / "strange.txt").write_text("x")
            (incoming / "config.json").write_bytes((run / "config.json").read_bytes())
        else:
            (incoming / "model.safetensors").symlink_to(bystander / "model.safetensors")
    return kind


def forge_evaluation(rng: np.random.Generator, folder: Path) -> str:
    """Let an earlier evaluation claim files of other people."""
    folder.mkdir(exist_ok=True)
    empty = hashlib.sha256(b"").hexdigest()
    written: Any = pick(
        rng,
        [
            {"../../../bystander/empty.txt": empty},
            {"../../bystander/empty.txt": empty},
            {str((folder.parent.parent.parent / "bystander" / "empty.txt").resolve()): empty},
            {"link": empty},
            {"": empty, ".": empty, "..": empty},
            {"a": 3},
            [],
            3,
            None,
            {"x" * 300: empty},
        ],
    )
    (folder / "link").symlink_to(folder.parent.parent.parent / "bystander" / "empty.txt")
    path, old = folder / "evaluation.json", {}
    with suppress(OSError, ValueError):
        old = json.loads(path.read_text())
    path.write_text(
        json.dumps({**old, "written": written})
        if chance(rng, 0.9)
        else hostile_text(rng).encode("utf-8", "replace").decode()
    )
    return short(written, 80)


RIGHT = {  # settings as people write them
    "problem": '"poisson"',
    "recipe": '"published"',
    "epochs": "3",
    "optimizer": '"adamw"',
    "learning_rate": "1e-3",
    "schedule": '"linear"',
    "loss": '"grid-l1"',
    "augment_symmetry": "false",
    "width": "4",
    "depth": "2",
    "attention": "false",
}


SETTINGS = {
    "": ["problem", "recipe"],
    "train": [
        "epochs",
        "batch_size",
        "optimizer",
        "learning_rate",
        "schedule",
        "loss",
        "warmup",
        "ema_decay",
        "compile",
    ]
    + ["precision", "batch", "unknown", "augment_symmetry"],
    "model": ["name", "width", "depth", "head_layers", "fusion", "attention", "unknown"],
}


def configs(rng: np.random.Generator, folder: Path) -> Attempt:
    """Read settings of training from TOML files and overrides."""
    path = folder / "settings.toml"
    share = float(rng.choice([0.0, 0.02, 0.1]))
    lines = []
    for section, names in SETTINGS.items():
        lines += [f"[{section}]"] if section else []
        lines += [f"{name} = {RIGHT[name]}" for name in names if name in RIGHT and chance(rng, 0.3)]
        lines += [f"{name} = {draw_toml(rng)}" for name in names if chance(rng, share)]
    content = "\n".join(lines).encode()
    kind = rng.integers(10)
    if kind < 2:
        content = mutated(rng, content or b"[train]")
    elif kind == 2:
        many = int(10 ** rng.uniform(2, 4.5))
        content = pick(
            rng,
            [
                b"x = " + b"[" * many,
                b"a." * many + b"b = 1",
                b"x = " + b"{a=" * many,
                b"x = 1e" + b"9" * many,
                b"x = 0x" + b"f" * many,
                b"x = " + b"9" * many,
            ],
        )
    elif kind == 3:
        content = hostile_text(rng).encode(errors="surrogateescape")
    path.write_bytes(content)
    text = short(content, 150)
    if kind == 4:
        text += f": {odd_file(rng, path, content, folder.parent / 'bystander')}"
    arguments: dict[str, Any] = {"config": path}
    if chance(rng, 0.4):
        arguments["overrides"] = [
            pick(
                rng,
                [
                    "train.epochs=3",
                    "model.width=4",
                    f"train.{hostile_text(rng)[:30]}=1",
                    f"train.epochs={draw_toml(rng)}",
                    hostile_text(rng),
                    "model.depth=" + "9" * 5000,
                    "train.loss=[" + "[" * 10**5,
                ],
            )
            for _ in range(int(rng.integers(1, 3)))
        ]
    if chance(rng, 0.2):
        arguments[pick(rng, ["model", "recipe", "model_settings"])] = pick(
            rng, ["disol", "unet", "x", {"width": 4}, {"width": "4"}, {"a": None}, {}]
        )
    full = chance(rng, 0.1)

    def run() -> None:
        if full:
            data = run_template() / "cases.h5"
            disol.train("poisson", data, folder / "run", device="cpu", progress=False, minutes=0.001, **arguments)
        else:
            choose_settings("poisson", **arguments)

    if full:  # what is right must not train for long
        extra = ["train.batch_size=2", "train.epochs=1", "model.width=4", "model.depth=2", "model.gated_skips=1"]
        arguments["overrides"] = [*arguments.get("overrides", []), *extra]
    return Attempt(f"{'train' if full else 'settings'}: {text}, {short(arguments, 200)}", run)


def draw_toml(rng: np.random.Generator) -> str:
    """Write a value of any kind."""
    return pick(
        rng,
        [
            *(
                "3",
                "0",
                "-1",
                "8",
                "1.5",
                "0.001",
                "nan",
                "inf",
                "true",
                "false",
                '"muon"',
                '"cosine"',
                '"poisson"',
                '"fast"',
                '"x"',
            ),
            *(
                "[]",
                "[1, 2]",
                "{a = 1}",
                "1979-05-27",
                "10000000000000000000000",
                '""',
                '"disol"',
                '"os:system"',
                "[[1]]",
                "1e308",
                "2",
            ),
        ],
    )


def generations(rng: np.random.Generator, folder: Path) -> Attempt:
    """Generate small files and evaluate models on them, with right and odd arguments."""
    path: Any = folder / "cases.h5"
    problem: Any = pick(rng, ["poisson", "elasticity", "heat", "advection-diffusion-low"])
    arguments: dict[str, Any] = {
        "seed": int(rng.integers(100)),
        "shift": pick(rng, [None, "all", "shapes", "broad", "source"]),
        "conventions": pick(rng, ["paper", "published"]),
        "resolution": 16,
        "chunk": pick(rng, [None, 1, 2, 100]),
        "resume": chance(rng, 0.3),
    }
    number: Any = int(rng.integers(1, 4))
    for _ in range(int(rng.choice([0, 0, 1, 1, 2]))):
        name = pick(rng, [*arguments, "problem", "path", "number", "device", "scheduler"])
        if name == "problem":
            problem = anything(rng)
        elif name == "path":
            path = pick(
                rng,
                [
                    "",
                    ".",
                    "/",
                    "/dev/full",
                    "/proc/cases.h5",
                    "x" * 300,
                    "a\0b",
                    "../bystander/thesis.tex",
                    folder,
                    None,
                    3,
                ],
            )
        elif name == "number":
            number = pick(rng, [0, -1, 1.5, "3", None, 10**12, 10**30, True, np.int64(2)])
        elif name == "scheduler":
            arguments[name] = pick(rng, ["x", "", 3])
        else:
            arguments[name] = anything(rng)
    evaluation: dict[str, Any] = {}
    for name in ("split", "frames", "batch_size", "out"):
        if chance(rng, 0.2):
            evaluation[name] = pick(
                rng,
                [
                    "all",
                    "train",
                    "validation",
                    [2.0],
                    [20.0, 50.0],
                    1,
                    3,
                    0,
                    None,
                    folder / "results",
                    "x\0y",
                    [float("nan")],
                ],
            )
    text = f"generate({short(problem, 40)}, {short(number, 20)}, {short(path, 40)}, {short(arguments, 300)})"
    text += f", evaluate({short(evaluation)})"

    def run() -> None:
        disol.generate(problem, number, path, **{"workers": 0, "device": "cpu", "progress": False, **arguments})
        with disol.data.resume_store(path, open_store(path).settings):  # nobody else holds it
            pass
        read_again(path)
        if arguments["conventions"] == "paper":
            disol.evaluate(problem, path, **{"device": "cpu", "progress": False, **evaluation})

    return Attempt(text, run)


def read_again(path: Path) -> None:
    """Require that a stored case is the one that was drawn and its solution."""
    store = open_store(path)
    settings = store.settings
    if settings.shift == "shapes":
        return
    read = store.read(slice(1))
    case = disol.draw(
        settings.problem,
        settings.seed,
        0,
        resolution=settings.resolution,
        shift=settings.shift or None,
        conventions=settings.conventions,
    )
    times: dict[str, Any] = {"times": settings.times} if settings.times else {}
    solution = disol.solve_exact(disol.Case.from_arrays(case, **times) if times else case, device="cpu")
    if not np.array_equal(read["domain"][0], case.domain):
        raise WrongAnswer("the stored domain is not the one that was drawn")
    if not np.allclose(read["pattern"][0], solution.pattern, atol=1e-5):
        raise WrongAnswer("the stored pattern is not that of the solution")
