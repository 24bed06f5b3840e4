"""Batches hold what the file holds, wherever they are made."""

import copy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader

from disol.data import CaseDataset, generate, open_store
from disol.errors import DisolError
from disol.problems.table import PROBLEMS


def test_an_item_stacks_the_channels_of_its_case(elasticity_file: Path) -> None:
    dataset = CaseDataset(elasticity_file, "validation")
    stored = open_store(elasticity_file).read(dataset.positions)
    for position, item in enumerate(dataset):
        for channel, values in zip(PROBLEMS["elasticity"].channels, item["inputs"], strict=True):
            assert np.array_equal(values, stored[channel][position])
        assert np.array_equal(item["target"], stored["pattern"][position])
        assert np.array_equal(item["domain"][0], stored["domain"][position])
        assert item["amplitude"].tolist() == stored["amplitude"][position].tolist()
        assert item["index"] == stored["index"][position]
    assert item["inputs"].dtype == item["target"].dtype == torch.float32


def test_the_splits_share_no_case(poisson_file: Path) -> None:
    train, validation, everything = (
        {int(item["index"]) for item in CaseDataset(poisson_file, split)} for split in ("train", "validation", "all")
    )
    assert len(train) == 8
    assert not train & validation
    assert train | validation == everything == set(range(10))


def test_a_batch_on_a_device_is_the_collated_items(poisson_file: Path, elasticity_file: Path) -> None:
    for path in (poisson_file, elasticity_file):
        dataset = CaseDataset(path, "all")
        expected = next(iter(DataLoader(dataset, batch_size=4)))
        found = dataset.to_device("cpu").batch(torch.arange(4))
        assert found.keys() == expected.keys()
        for name, values in expected.items():
            assert torch.equal(found[name], values), name
            assert found[name].dtype == values.dtype


@pytest.mark.parametrize("at_once", [1, 3, 4])
def test_cases_reach_a_device_whole_whatever_is_read_at_once(
    heat_file: Path, poisson_file: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr("disol.data.dataset.CASES_AT_ONCE", at_once)
    for path in (heat_file, poisson_file):
        stored = open_store(path).read()
        if "times" not in stored:
            stored["pattern"] = stored["pattern"][:, None]  # on a device, steady problems have one frame
        for name, values in CaseDataset(path, "all").to_device("cpu").arrays.items():
            assert np.array_equal(values, stored[name]), name


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
def test_batches_are_chosen_by_numbers_of_any_kind(poisson_file: Path, kind: Callable[[list[int]], object]) -> None:
    cases = CaseDataset(poisson_file, "all").to_device("cpu")
    assert cases.batch(kind([3, 0]))["index"].tolist() == [3, 0]


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
def test_frames_are_chosen_by_numbers_of_any_kind(heat_file: Path, kind: Callable[[list[int]], object]) -> None:
    stored = open_store(heat_file).read()["pattern"]
    batch = CaseDataset(heat_file, "all").to_device("cpu").batch([1, 0], frames=kind([0, 24]))
    assert np.array_equal(batch["target"], stored[[1, 0], [0, 24]])


def test_an_item_is_one_case(poisson_file: Path) -> None:
    dataset = CaseDataset(poisson_file, "all")
    assert dataset[np.int64(3)]["index"] == dataset[torch.tensor(3)]["index"] == 3
    for positions in ([3, 0], slice(0, 3), 1.5):
        with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
            dataset[positions]  # type: ignore[index]


def test_devices_have_the_same_names_as_everywhere(poisson_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    dataset = CaseDataset(poisson_file)
    assert dataset.to_device("auto").device == dataset.to_device(torch.device("cpu")).device == torch.device("cpu")
    with pytest.raises(DisolError, match="'cuda' was asked for, but there are 0 CUDA devices"):
        dataset.to_device("cuda")
    with pytest.raises(DisolError, match="Unknown device 'gpu'"):
        dataset.to_device("gpu")


def test_a_loader_in_other_processes_gives_the_same_batches(poisson_file: Path) -> None:
    dataset = CaseDataset(poisson_file)
    here = next(iter(DataLoader(dataset, batch_size=3)))
    there = next(iter(DataLoader(dataset, batch_size=3, num_workers=1, multiprocessing_context="spawn")))
    assert all(torch.equal(here[name], there[name]) for name in here)


@pytest.mark.filterwarnings("ignore:This DataLoader will create", "ignore:This process .* is multi-threaded")
def test_workers_draw_other_frames_than_each_other_and_than_an_epoch_before(heat_file: Path) -> None:
    def draw() -> list[list[float]]:
        torch.manual_seed(3)
        dataset = ConcatDataset([CaseDataset(heat_file, "all", generator=torch.Generator().manual_seed(1))] * 8)
        loader = DataLoader(dataset, batch_size=20, num_workers=2, multiprocessing_context="fork")
        return [batch["inputs"][:, -1, 0, 0].tolist() for _ in range(2) for batch in loader]

    first = draw()
    assert len({tuple(frames) for frames in first}) == len(first) == 4, "a batch has the frames of another one"
    assert draw() == first, "the same seeds should draw the same frames"


def test_a_copied_dataset_draws_on_as_the_original_would(heat_file: Path) -> None:
    dataset = CaseDataset(heat_file, "all", generator=torch.Generator().manual_seed(1))
    dataset[0]
    again = copy.deepcopy(dataset)
    for _ in range(9):
        assert torch.equal(dataset[0]["target"], again[0]["target"])


def test_a_heat_item_belongs_to_the_frame_asked_for(heat_file: Path) -> None:
    stored = open_store(heat_file).read()
    for frame in (0, 9, 24):
        item = CaseDataset(heat_file, "all", frame=frame)[1]
        assert np.array_equal(item["target"], stored["pattern"][1, frame])
        assert torch.equal(item["inputs"][-1], torch.full((20, 20), (frame + 1) * 2 / 20))
    assert np.array_equal(CaseDataset(heat_file, "all").frames(1), stored["pattern"][1])


def test_frames_drawn_for_training_end_at_20_seconds_and_follow_their_generator(heat_file: Path) -> None:
    cases = CaseDataset(heat_file, "all").to_device("cpu")
    drawn = cases.draw_frames(500, torch.Generator().manual_seed(0))
    assert sorted(set(drawn.tolist())) == list(range(10))
    for until, count in ((6.0, 3), (50.0, 25)):
        kept = CaseDataset(heat_file, "all").to_device("cpu", until=until)
        assert kept.arrays["pattern"].shape[1] == kept.num_trained_frames == count
        assert sorted(set(kept.draw_frames(900, torch.Generator().manual_seed(0)).tolist())) == list(range(count))
    indices = torch.tensor([3, 0, 3])
    random = cases.batch(indices, generator=torch.Generator().manual_seed(4))
    frames = cases.draw_frames(3, torch.Generator().manual_seed(4))
    fixed = cases.batch(indices, frames=frames)
    assert all(torch.equal(random[name], fixed[name]) for name in fixed)
    stored = open_store(heat_file).read()["pattern"]
    assert np.array_equal(fixed["target"], stored[indices.numpy(), frames.numpy()])


def test_a_frame_must_be_chosen_where_there_are_frames_and_only_there(heat_file: Path, poisson_file: Path) -> None:
    with pytest.raises(ValueError, match=r"heat has 25 frames, and none was chosen\. Give the frame"):
        CaseDataset(heat_file)[0]
    with pytest.raises(ValueError, match="heat has frames 0 to 24, got 25"):
        CaseDataset(heat_file, frame=25)
    with pytest.raises(ValueError, match="poisson is steady and has no frames"):
        CaseDataset(poisson_file, frame=1)
    with pytest.raises(ValueError, match="poisson is steady and has no frames"):
        CaseDataset(poisson_file).frames(0)


def test_a_steady_case_has_one_frame_that_need_not_be_chosen(poisson_file: Path) -> None:
    cases = CaseDataset(poisson_file, "all").to_device("cpu")
    generator = torch.Generator().manual_seed(0)
    before = generator.get_state()
    assert cases.num_trained_frames == 1
    assert cases.draw_frames(3, generator).tolist() == [0, 0, 0]
    assert torch.equal(generator.get_state(), before), "a frame was drawn although there is one"
    chosen = cases.batch([4, 2], frames=torch.zeros(2, dtype=torch.long))
    for found in (cases.batch([4, 2]), cases.batch([4, 2], generator=generator)):
        assert all(torch.equal(found[name], chosen[name]) for name in chosen)


def test_a_split_without_cases_is_empty_on_a_device(tmp_path: Path) -> None:
    generate("poisson", 1, tmp_path / "one.h5", resolution=16, workers=0, device="cpu")
    cases = CaseDataset(tmp_path / "one.h5", "train").to_device("cpu")
    assert len(cases) == 0
    assert cases.arrays["pattern"].shape == (0, 1, 1, 16, 16)


def test_a_file_that_does_not_fit_into_memory_is_one_clear_line(
    poisson_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = CaseDataset(poisson_file, "all")
    needed = sum(values.nbytes for values in dataset.to_device("cpu").arrays.values())
    monkeypatch.setattr("disol.data.dataset.free_bytes", lambda device: needed)
    assert len(dataset.to_device("cpu")) == 10
    monkeypatch.setattr("disol.data.dataset.free_bytes", lambda device: needed - 1)
    with pytest.raises(DisolError, match=r"cases\.h5 does not fit into the memory of cpu\. Free memory"):
        dataset.to_device("cpu")
    monkeypatch.setattr("disol.data.dataset.free_bytes", lambda device: needed)

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr("torch.empty", refuse)
    with pytest.raises(DisolError, match="does not fit into the memory of cpu"):
        dataset.to_device("cpu")


def test_what_is_printed_of_a_file_is_short(heat_file: Path) -> None:
    dataset = CaseDataset(heat_file)
    for value in (dataset, dataset.to_device("cpu"), dataset.store, dataset.settings):
        assert "5 cases of heat, 20 x 20, 25 frames to 50 s, paper conventions, seed 3" in repr(value)
        assert len(repr(value)) < 150 + len(str(heat_file))


def test_data_need_no_torch_until_a_name_that_does_is_used() -> None:
    script = (
        "import sys, disol.data; assert 'torch' not in sys.modules\n"
        "disol.data.CaseDataset; assert 'torch' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_an_unknown_name_is_an_error_that_lists_the_names() -> None:
    import disol.data

    with pytest.raises(AttributeError, match=r"has no 'Dataset'\. Its names are CaseDataset"):
        _ = disol.data.Dataset
