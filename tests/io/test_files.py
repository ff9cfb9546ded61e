"""Files are written whole, with the user's permissions, and nothing dead stays beside them."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pcegp.errors import FileError
from pcegp.io import replacing, write_text
from pcegp.io.files import Together, check_writable, taking_place_alone


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_a_new_file_has_the_permissions_that_the_umask_gives(tmp_path, umask):
    before = os.umask(umask)
    try:
        write_text(tmp_path / "new.txt", "new")
    finally:
        os.umask(before)
    assert mode(tmp_path / "new.txt") == 0o666 & ~umask


@pytest.mark.parametrize("own", [0o600, 0o640, 0o664])
def test_a_file_keeps_its_own_permissions(tmp_path, own):
    path = tmp_path / "old.txt"
    path.write_text("old")
    path.chmod(own)
    with replacing(path) as temporary:
        assert mode(temporary) & ~own == 0  # never open to more users, meanwhile
        temporary.write_text("new")
    assert (path.read_text(), mode(path)) == ("new", own)


def test_file_and_folder_are_flushed_around_the_rename(tmp_path, monkeypatch):
    seen, flush, rename = [], os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (
        seen.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file"),
        flush(handle)))
    monkeypatch.setattr(Path, "replace", lambda *paths: (seen.append("rename"), rename(*paths)))
    write_text(tmp_path / "a.txt", "text")
    assert seen == ["file", "rename", "folder"]


def test_a_link_is_followed_and_stays(tmp_path):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "a.txt", tmp_path / "link.txt"
    link.symlink_to("there/a.txt")
    for text in ("into nothing", "into a file"):
        with replacing(link) as temporary:
            assert temporary.parent == target.parent
            temporary.write_text(text)
        assert link.is_symlink()
        assert target.read_text() == text


def test_what_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "circle").symlink_to("circle")
    long = tmp_path / ("x" * 300)
    before = sorted(tmp_path.iterdir())
    for path, what in (("pipe", "a pipe"), ("link", "a pipe"), ("circle", "in a circle"),
                       (long, "too long"), (tmp_path, "a folder"), ("/dev/null", "a device")):
        with pytest.raises(FileError, match=what):
            check_writable(tmp_path / path)
        with pytest.raises(FileError, match=what):
            write_text(tmp_path / path, "text")
    assert sorted(tmp_path.iterdir()) == before


def test_a_write_protected_file_and_a_place_without_files_are_refused(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("mine")
    path.chmod(0o444)
    with pytest.raises(FileError, match="write-protected"):
        check_writable(path)
    with pytest.raises(FileError, match="takes no files"):
        check_writable(Path("/proc/a.txt"))
    check_writable(tmp_path / "deep" / "er" / "a.txt")
    assert list(tmp_path.iterdir()) == [path]


def test_a_long_name_is_no_fault(tmp_path):
    path = tmp_path / ("ü" * 100 + ".json")
    write_text(path, "text")
    assert list(tmp_path.iterdir()) == [path]


WRITER = """
import sys, time
from pathlib import Path
from pcegp.io import replacing
with replacing(Path(sys.argv[1])) as temporary:
    print(temporary, flush=True)
    time.sleep(60)
"""


def test_what_a_killed_writer_left_is_deleted_and_what_a_living_one_writes_is_not(tmp_path):
    path, other = tmp_path / "a[1].csv", tmp_path / "a.csv"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(p)], stdout=subprocess.PIPE)
               for p in (path, path, other)]
    dead, living, others = (Path(w.stdout.readline().decode().strip()) for w in writers)
    assert dead.name.startswith(".a[1].csv.pcegp-partial-")
    assert dead.suffix == ".csv"
    for writer in (writers[0], writers[2]):
        writer.kill()
        writer.communicate()
    lookalike = tmp_path / ".a[1].csv.pcegp-partial-mine.csv"
    lookalike.write_text("the user's own")
    write_text(path, "text")
    assert not dead.exists()
    assert living.exists()
    assert others.exists()  # of another file
    assert lookalike.exists()
    writers[1].send_signal(signal.SIGINT)
    writers[1].kill()
    writers[1].communicate()


def test_files_take_their_places_together_or_not_at_all(tmp_path):
    one, two, three = (tmp_path / name for name in ("one.txt", "two.txt", "three.txt"))
    one.write_text("old")

    def write_both(end):
        with Together() as files:
            write_text(one, "new")
            write_text(two, "new")
            with taking_place_alone():
                write_text(three, end)
            assert one.read_text() == "old"
            assert three.read_text() == end
            if end == "fails":
                raise KeyboardInterrupt
            files.commit()

    with pytest.raises(KeyboardInterrupt):
        write_both("fails")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one.txt", "three.txt"]
    write_both("works")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one.txt", "three.txt", "two.txt"]
    assert one.read_text() == "new"
