"""The checks that need no build, over the whole tree: `make lint` has them too, and clang-tidy."""

import coroutines
import prose


def test_no_comment_or_document_has_an_objection(capsys):
    assert prose.main([]) == 0, capsys.readouterr().out


def test_no_statement_with_co_await_is_one_that_gcc_12_miscompiles(capsys):
    assert coroutines.main([]) == 0, capsys.readouterr().out
