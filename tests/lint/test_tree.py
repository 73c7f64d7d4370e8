# SPDX-License-Identifier: Apache-2.0
"""The checks that need no build, over the whole tree: `make lint` has them too, and clang-tidy."""

import re
import shutil
from pathlib import Path

import coroutines
import prose
import pytest
import spdx
from objections import ROOT, tracked_files

# The first bytes of gzip, zip (wheels too), xz, bzip2, zstd, ELF and ar files.
ARCHIVES_AND_OBJECTS = re.compile(
    rb"\x1f\x8b|PK\x03\x04|\xfd7zXZ|BZh[1-9]|\x28\xb5\x2f\xfd|\x7fELF|!<arch>\n", re.DOTALL
)
TAR_MAGIC_AT = 257


def is_archive_or_object(head: bytes) -> bool:
    return bool(ARCHIVES_AND_OBJECTS.match(head)) or head[TAR_MAGIC_AT:].startswith(b"ustar")


def test_no_comment_or_document_has_an_objection(capsys):
    assert prose.main([]) == 0, capsys.readouterr().out


def test_no_statement_with_co_await_is_one_that_gcc_12_miscompiles(capsys):
    assert coroutines.main([]) == 0, capsys.readouterr().out


def test_each_source_file_names_its_licence(capsys):
    assert spdx.main([]) == 0, capsys.readouterr().out


@pytest.mark.parametrize("name", ["package.tar", "package.tar.gz", "package.tar.bz2", "package.tar.xz", "package.zip"])
def test_an_archive_is_recognised_whatever_its_name(tmp_path, name):
    (tmp_path / "file").write_text("text")
    form = {"tar": "tar", "gz": "gztar", "bz2": "bztar", "xz": "xztar", "zip": "zip"}[name.rsplit(".", 1)[1]]
    made = shutil.make_archive(str(tmp_path / "made"), form, tmp_path, "file")
    assert is_archive_or_object(Path(made).read_bytes()[:512])


def test_no_downloaded_archive_and_no_object_file_is_tracked():
    tracked = [path for path in tracked_files() if path.is_file()]
    assert len(tracked) > 1000
    found = []
    for path in tracked:
        with path.open("rb") as file:
            if is_archive_or_object(file.read(512)):
                found.append(str(path.relative_to(ROOT)))
    assert found == [], "remove it from git, and let the program that needs it fetch it into a build folder"
