"""Output of functions: marks in the pipe, lines, lines that are not complete."""

from __future__ import annotations

from jmars.processes.output import OutputReader, text_of


def fed(reader, *parts):
    return [
        (source.kind, source.line, text_of(line))
        for part in parts
        for source, lines in reader.feed(part)
        for line in lines
    ]


def test_lines_come_with_their_sources_however_the_bytes_are_cut():
    whole = b"\x1e3o0:\x1fone\ntwo\n\x1e3e7:/a/b.py\x1fUserWarning: no\n\x1e3e0:\x1ferr\n\x1e3o0:\x1fthree\n"
    expected = [("o", 0, "one"), ("o", 0, "two"), ("e", 7, "UserWarning: no"), ("e", 0, "err"), ("o", 0, "three")]
    for at in range(len(whole)):
        assert fed(OutputReader(), whole[:at], whole[at:]) == expected


def test_an_incomplete_line_is_live_and_a_carriage_return_replaces_it():
    reader = OutputReader()
    assert fed(reader, b"\x1e0e0:\x1f\r 10%|#    |", b"\r 20%|##   |") == [] and reader.live == " 20%|##   |"
    assert fed(reader, b"\x1e0o0:\x1fbetween\n") == [("o", 0, "between")]
    assert fed(reader, b"\x1e0e0:\x1f\r100%|#####|\n") == [("e", 0, "100%|#####|")] and reader.live == ""
    assert fed(reader, b"\x1e0o0:\x1f50%\r") == [] and reader.live == "50%"
    assert fed(reader, b"60%\r\nend\n") == [("o", 0, "60%"), ("o", 0, "end")]


def test_an_incomplete_line_ends_with_its_job_or_process():
    reader = OutputReader()
    assert fed(reader, b"\x1e0o0:\x1fhalf") == []
    assert fed(reader, b"\x1e1o0:\x1fother\n") == [("o", 0, "half"), ("o", 0, "other")]
    assert fed(reader, b"\x1e1o0:\x1flast words") == [] and not list(reader.end(0))
    assert [lines for _, lines in reader.end()] == [[b"last words"]]


def test_bytes_that_only_look_like_marks_are_text():
    assert fed(OutputReader(), b"a\x1eb\nc\x1e0o0:") == [("o", 0, "ab")]
    assert fed(OutputReader(), b"\x1e0o0:" + b"x" * 6_000 + b"\n")[0][2].startswith("0o0:xxx")


def test_a_line_without_end_is_cut_and_control_characters_are_dropped():
    reader = OutputReader()
    (found,) = fed(reader, b"x" * 100_000)
    assert found[2].endswith("… (98000 more characters)") and reader.live == ""
    assert text_of("\x1b[31mrot\x1b[0m \x1b]0;title\x07ü\x00\t.".encode()) == "rot ü\t."
    assert text_of(b"\xff<b>") == "\N{REPLACEMENT CHARACTER}<b>"
