import pytest

from disol.files import written_whole


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
