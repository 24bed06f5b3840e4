import errno
import os
import shutil
import stat
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from disol._files import (
    INCOMING,
    claimed,
    drop_unfinished,
    folder_written_whole,
    read_current,
    read_regular,
    require_regular,
    write_together,
    written_whole,
)
from disol.errors import DisolError


def test_a_regular_file_is_read_whole_up_to_a_size(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(b"\r\n\x1a\x00")
    (tmp_path / "link").symlink_to(path)
    require_regular(tmp_path / "link")
    assert read_regular(tmp_path / "link", 4) == read_regular(str(path), 10**18) == b"\r\n\x1a\x00"
    with pytest.raises(DisolError, match=r"Cannot read .*a\.bin: it has 4 bytes, at most 3 were expected"):
        read_regular(path, 3)


@pytest.mark.parametrize("read", [require_regular, lambda path: read_regular(path, 100)])
def test_what_would_hang_or_never_end_is_refused_in_one_line(tmp_path, read):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    before = os.listdir("/proc/self/fd")
    for name, reason in [
        ("pipe", "it is a pipe, not a regular file"),
        ("endless", "it is a device, not a regular file"),
        ("", "it is a folder, not a regular file"),
        ("loop", "Too many levels of symbolic links"),
        ("missing", "No such file or directory"),
        ("no\0name", "embedded null byte"),
    ]:
        with pytest.raises(DisolError, match=rf"^Cannot read {tmp_path}.*: {reason}\. Check the path\.$"):
            read(tmp_path / name)
    assert os.listdir("/proc/self/fd") == before


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")

    def fail_halfway() -> None:
        with written_whole(target) as path:
            path.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_halfway()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_finished_write_replaces_the_file(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with written_whole(target) as path:
        path.write_text("new")
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_only_what_a_killed_write_of_the_same_file_has_left_is_dropped(tmp_path):
    target = tmp_path / "a[1].txt"
    others = (".a[1]-abcdefgh.txt", ".a[1]-unfinished-notes.txt", ".a1-unfinished-abcdefgh.txt")
    kept = [target, *(tmp_path / name for name in (*others, ".a[1]-unfinished-abcdefgh.csv"))]
    for path in kept:
        path.touch()
    with written_whole(target) as path:
        left = shutil.copy(path, path.with_name(f".a[1]-unfinished-{'z' * 8}.txt"))
    assert left.exists()
    drop_unfinished(target)
    assert sorted(tmp_path.iterdir()) == sorted(kept)


def test_the_next_write_removes_what_a_killed_one_has_left_but_nothing_of_one_that_lives(tmp_path):
    script = (
        "import os, sys; from disol._files import written_whole\n"
        "with written_whole(sys.argv[1]) as path:\n    print(path, flush=True); sys.stdin.read()\n"
    )
    target = tmp_path / "a.txt"
    command = [sys.executable, "-c", script, target]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        left = Path(process.stdout.readline().strip())
        with written_whole(target) as path:
            path.write_text("new")
        assert sorted(tmp_path.iterdir()) == sorted([left, target])
        process.kill()
    assert left.exists()
    with written_whole(target) as path:
        path.write_text("newer")
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_what_is_written_has_the_usual_permissions_and_no_thread_sees_another_umask(tmp_path, monkeypatch, umask):
    before = os.umask(umask)
    try:
        monkeypatch.setattr("os.umask", None)  # changing it, if only to read it, would change it for all threads
        with written_whole(tmp_path / "a.txt") as path:
            path.write_text("new")
        with folder_written_whole(tmp_path / "folder", ".txt") as folder:
            (folder / "a.txt").write_text("new")
        write_together(tmp_path / "together", {"a.txt": b"new"})
    finally:
        monkeypatch.undo()
        os.umask(before)
    for made in tmp_path.rglob("*"):
        assert stat.S_IMODE(made.stat().st_mode) == (0o777 if made.is_dir() else 0o666) & ~umask


def test_a_name_that_leaves_no_room_for_a_temporary_one_is_written(tmp_path):
    target = tmp_path / f"{'ü' * 100}.txt"
    with written_whole(target) as path:
        path.write_text("new")
    assert list(tmp_path.iterdir()) == [target]
    with pytest.raises(DisolError, match="File name too long"), written_whole(tmp_path / ("x" * 300)):
        pass


def test_a_file_is_on_the_disk_before_it_has_its_name_and_its_name_afterwards(tmp_path, monkeypatch):
    steps, sync, replace = [], os.fsync, Path.replace

    def record_sync(descriptor):
        steps.append("sync folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "sync file")
        sync(descriptor)

    def record_replace(path, target):
        steps.append("replace")
        return replace(path, target)

    monkeypatch.setattr("os.fsync", record_sync)
    monkeypatch.setattr(Path, "replace", record_replace)
    with written_whole(tmp_path / "a.txt") as path:
        path.write_text("new")
    assert steps == ["sync file", "replace", "sync folder"]


@pytest.mark.parametrize(("code", "raises"), [(errno.EINVAL, False), (errno.EIO, True)])
def test_a_folder_that_cannot_be_synced_is_no_error_but_a_broken_disk_is(tmp_path, monkeypatch, code, raises):
    def fail(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(code, os.strerror(code))

    monkeypatch.setattr("os.fsync", fail)
    expected = pytest.raises(ValueError, match=os.strerror(code)) if raises else nullcontext()
    with expected, written_whole(tmp_path / "a.txt") as path:
        path.write_text("new")
    assert (tmp_path / "a.txt").read_text() == "new"


def test_an_error_without_a_number_is_told_in_its_own_words(tmp_path, monkeypatch):
    with (
        pytest.raises(ValueError, match=r"Cannot write .*a\.png: encoder error\. Free"),
        written_whole(tmp_path / "a.png"),
    ):
        raise OSError("encoder error")

    def fail(*arguments):
        raise OSError("no name is free")

    monkeypatch.setattr("os.open", fail)
    with pytest.raises(ValueError, match=r"Cannot write .*a\.png: no name is free\. Choose"):
        written_whole(tmp_path / "a.png").__enter__()


def test_thousands_of_folders_to_make_are_refused_in_one_line(tmp_path):
    with pytest.raises(ValueError, match=r"Cannot write .*Choose another path"):
        written_whole(tmp_path / "/".join("b" * 1900) / "a.txt").__enter__()
    assert not list(tmp_path.iterdir())


def test_files_of_a_folder_change_together_and_some_go(tmp_path):
    folder = tmp_path / "a" / "b"
    write_together(folder, {"one": b"1", "two": b"2", "three": b"3"})
    write_together(folder, {"one": b"11", "two": b"22"}, dropped=("three", "never there"))
    assert sorted(file.name for file in folder.iterdir()) == ["one", "two"]
    assert [read_current(folder, name, 9) for name in ("one", "two")] == [b"11", b"22"]


def test_a_change_that_has_not_moved_up_yet_is_read_first_and_finished_by_the_next(tmp_path):
    write_together(tmp_path, {"one": b"1", "two": b"2"})
    (tmp_path / INCOMING).mkdir()
    (tmp_path / INCOMING / "one").write_bytes(b"11")
    (tmp_path / ".unfinished-abc").mkdir()
    assert [read_current(tmp_path, name, 9) for name in ("one", "two")] == [b"11", b"2"]
    write_together(tmp_path, {"two": b"22"}, kept=("one",))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["one", "two"]
    assert (tmp_path / "one").read_bytes() == b"11"


def test_a_folder_that_cannot_be_written_is_told_in_one_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"Cannot write to .*inside: Not a directory"):
        write_together(tmp_path / "file" / "inside", {"one": b"1"})


def test_a_link_in_the_place_of_an_unfinished_change_is_refused_and_its_target_left_alone(tmp_path):
    target, folder = tmp_path / "precious", tmp_path / "run"
    target.mkdir()
    for name in ("one", "thesis.tex"):
        (target / name).write_text("precious")
    write_together(folder, {"one": b"1"})
    (folder / INCOMING).symlink_to(target)
    with pytest.raises(DisolError, match=r"incoming must be a folder, but is a link\. Remove it"):
        write_together(folder, {"one": b"2"})
    with pytest.raises(DisolError, match=r"incoming must be a folder, but is a link\. Remove it"):
        read_current(folder, "one", 9)
    assert sorted(file.name for file in target.iterdir()) == ["one", "thesis.tex"]
    assert sorted(file.name for file in folder.iterdir()) == [INCOMING, "one"]
    assert (folder / "one").read_bytes() == b"1"


@pytest.mark.parametrize("kind", ["unknown name", "link", "pipe", "folder"])
def test_only_known_regular_files_move_up(tmp_path, kind):
    write_together(tmp_path, {"one": b"1"})
    (tmp_path / INCOMING).mkdir()
    (tmp_path / INCOMING / "one").write_bytes(b"11")
    strange = tmp_path / INCOMING / ("unknown" if kind == "unknown name" else "two")
    make = {"link": lambda: strange.symlink_to("/etc/hostname"), "pipe": lambda: os.mkfifo(strange)}
    make.get(kind, strange.mkdir if kind == "folder" else strange.touch)()
    with pytest.raises(DisolError, match=rf"{strange.name} cannot have been left there by an interrupted change"):
        write_together(tmp_path, {"one": b"2", "two": b"2"})
    assert (tmp_path / "one").read_bytes() == b"1"
    assert not (tmp_path / strange.name).exists()


def test_a_lock_keeps_others_out_and_leaves_nothing(tmp_path):
    lock = tmp_path / "lock"
    with claimed(lock), pytest.raises(DisolError, match="is in use by another process"), claimed(lock):
        pass
    assert not lock.exists()
    lock.touch()  # as a process leaves that was killed
    with claimed(lock):
        assert lock.exists()
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_its_owner_has_removed_meanwhile_is_made_anew(tmp_path, monkeypatch):
    lock, opened, os_open = tmp_path / "lock", [], os.open

    def remove_once(path, flags, mode=0o777):
        descriptor = os_open(path, flags, mode)
        if path == lock:
            opened.append(path)
            if len(opened) == 1:
                lock.unlink()
        return descriptor

    monkeypatch.setattr("os.open", remove_once)
    with claimed(lock), pytest.raises(DisolError, match="is in use by another process"), claimed(lock):
        pass
    assert len(opened) == 3


def test_a_lock_is_no_link(tmp_path):
    (tmp_path / "lock").symlink_to(tmp_path / "precious")
    with pytest.raises(DisolError, match=r"Cannot write .*lock"), claimed(tmp_path / "lock"):
        pass
    assert not (tmp_path / "precious").exists()
