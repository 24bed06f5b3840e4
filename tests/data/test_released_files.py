"""Released files are read by name; files of cases leave as plain NumPy archives."""

import json
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from disol.data import create_store, export_npz, open_store, read_released
from disol.problems.table import PROBLEMS


def released_inputs(problem: str, cases: int = 3, side: int = 12) -> torch.Tensor:
    channels = [name for name in PROBLEMS[problem].channels if name != "time"]
    generator = torch.Generator().manual_seed(0)
    markers = torch.randint(0, 2, (cases, len(channels), side, side), generator=generator).float()
    real = torch.rand(markers.shape, generator=generator)
    is_real = torch.tensor([name in ("source", "initial") for name in channels])[:, None, None]
    sign = 1 - 2 * torch.tensor([name == "force_y" for name in channels])[:, None, None].float()
    return torch.where(is_real, real, sign * markers)


@pytest.mark.parametrize("problem", ["poisson", "elasticity"])
def test_both_released_layouts_hold_the_same_named_arrays(problem: str, tmp_path: Path) -> None:
    inputs, outputs = released_inputs(problem), torch.rand(3, len(PROBLEMS[problem].fields), 12, 12)
    torch.save({"inp": inputs, "out": outputs, "lim": torch.rand(3, 1)}, tmp_path / "train.pt")
    torch.save({"inputs": inputs, "outputs": outputs, "indices": torch.arange(3)}, tmp_path / "test.pt")
    train, test = (read_released(tmp_path / name, problem) for name in ("train.pt", "test.pt"))
    for position, name in enumerate(PROBLEMS[problem].channels):
        assert np.array_equal(train[name], inputs[:, position])
        assert np.array_equal(train[name], test[name])
    assert np.array_equal(train["pattern"], outputs)
    assert np.array_equal(test["pattern"], outputs)
    assert train["amplitude"].shape == (3,)
    assert test["index"].tolist() == [0, 1, 2]


def test_released_frames_of_heat_become_the_second_axis(tmp_path: Path) -> None:
    inputs, outputs = released_inputs("heat"), torch.rand(3, 1, 12, 12, 50)
    torch.save({"inp": inputs, "out": outputs, "lim": torch.rand(3)}, tmp_path / "heat.pt")
    arrays = read_released(tmp_path / "heat.pt", "heat")
    assert arrays["pattern"].shape == (3, 50, 1, 12, 12)
    assert np.array_equal(arrays["pattern"][1, 7, 0], outputs[1, 0, :, :, 7])
    assert "time" not in arrays


def test_the_authors_samples_survive_their_own_layout(released_data: Path, tmp_path: Path) -> None:
    samples = np.load(released_data / "poisson_published.npz")
    content = {name: torch.from_numpy(samples[name]) for name in ("inputs", "outputs")}
    torch.save(content, tmp_path / "samples.pt")
    arrays = read_released(tmp_path / "samples.pt", "poisson")
    assert np.array_equal(arrays["source"], samples["inputs"][:, 2])
    assert arrays["domain"].dtype == bool
    assert not arrays["pattern"][:, 0][~arrays["domain"]].any()


def test_files_that_are_not_released_data_are_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "text.pt").write_text("not tensors")
    torch.save({"epoch": 3}, tmp_path / "checkpoint.pt")
    torch.save([1, 2], tmp_path / "list.pt")
    torch.save({"inp": torch.zeros(1, 4, 8, 8), "out": torch.zeros(1, 1, 8, 8)}, tmp_path / "channels.pt")
    torch.save({"inp": torch.zeros(1, 3, 8, 8), "out": torch.zeros(1, 2, 8, 8)}, tmp_path / "fields.pt")
    torch.save({"inp": torch.full((1, 3, 8, 8), 0.5), "out": torch.zeros(1, 1, 8, 8)}, tmp_path / "grey.pt")
    for name, message in [
        ("missing.pt", "cannot be read: No such file"),
        ("text.pt", "not a file of tensors"),
        ("checkpoint.pt", "got epoch"),
        ("list.pt", "dictionary, got list"),
        ("channels.pt", r"\[case, 3, height, width\], got \(1, 4, 8, 8\)"),
        ("fields.pt", r"got \(1, 2, 8, 8\)"),
        ("grey.pt", "domain must hold only 0, 1"),
    ]:
        with pytest.raises(ValueError, match=message) as raised:
            read_released(tmp_path / name, "poisson")
        assert "\n" not in str(raised.value)


def test_an_archive_holds_what_the_file_holds(heat_file: Path, tmp_path: Path) -> None:
    export_npz(heat_file, tmp_path / "cases.npz", split="validation")
    store = open_store(heat_file)
    with np.load(tmp_path / "cases.npz") as archive:
        expected = store.read(store.positions("validation"))
        assert set(archive) == {*expected, "settings"}
        for name, values in expected.items():
            assert np.array_equal(archive[name], values)
        assert json.loads(str(archive["settings"]))["problem"] == "heat"


def test_an_export_that_fails_leaves_nothing_behind(
    heat_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(ValueError, match=r"called NAME\.npz"):
        export_npz(heat_file, tmp_path / "cases.zip")
    monkeypatch.setattr("disol.data.export._write_member", full)
    with pytest.raises(ValueError, match="No space left"):
        export_npz(heat_file, tmp_path / "cases.npz")
    assert not list(tmp_path.iterdir())


def test_an_archive_is_written_in_less_memory_than_it_takes(
    heat_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(heat_file)
    repeated = {name: np.repeat(values, 40, axis=0) for name, values in store.read().items()}
    with create_store(tmp_path / "many.h5", replace(store.settings, num_cases=200)) as writer:
        writer.write_chunk(0, repeated)
    monkeypatch.setattr("disol.data.export.PIECE_BYTES", 2**19)
    tracemalloc.start()
    export_npz(tmp_path / "many.h5", tmp_path / "many.npz", names=("pattern", "domain", "times"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < repeated["pattern"].nbytes / 4
    with np.load(tmp_path / "many.npz") as archive:
        assert list(archive) == ["settings", "pattern", "domain", "times"]
        assert np.array_equal(archive["pattern"], repeated["pattern"])
        assert np.array_equal(archive["domain"], repeated["domain"])
