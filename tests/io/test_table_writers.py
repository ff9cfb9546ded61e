"""Tables that are written: in the format of the ending, and nothing of the user's changed."""

from __future__ import annotations

import csv
import gzip
from datetime import UTC, datetime

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pcegp.errors import DataError, SettingError
from pcegp.io import check_ending, open_table, table_writer

TEXT = "a,note,y\n1.5,red,007\n,,2\n-3,\"x, y\",3\n"
FIGURES = [np.array([0.1, 0.2, 1e-7])]


def written(source, out, *, figures=FIGURES, numeric=("a",), size=10, names=("mean",)):
    table, start = open_table(source), 0
    with table_writer(out, check_ending(out), table, names, set(numeric)) as writer:
        for block in table.blocks(size):
            end = start + len(block.rows)
            writer.write(block, [column[start:end] for column in figures])
            start = end
    return writer


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "source.csv"
    path.write_text(TEXT)
    return path


@pytest.mark.parametrize("size", [1, 2, 10])
@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".parquet", ".xlsx", ".XLSX", ".pq"])
def test_a_table_comes_back_from_every_format(source, ending, size):
    out = source.with_name(f"out{ending}")
    written(source, out, size=size)
    block = open_table(out).whole()
    assert block.names == ("a", "note", "y", "mean")
    assert block.numbers("mean").tolist() == FIGURES[0].tolist()
    np.testing.assert_array_equal(block.numbers("a"), [1.5, np.nan, -3.0])
    assert [cell or "" for cell in block.cells("note")] == ["red", "", "x, y"]
    assert str(block.cells("y")[0]) == "007"


def test_each_ending_is_what_it_says(source):
    starts = {".csv": b"a,note", ".csv.gz": b"\x1f\x8b", ".parquet": b"PAR1", ".xlsx": b"PK\3\4"}
    for ending, start in starts.items():
        out = source.with_name(f"out{ending}")
        written(source, out)
        assert out.read_bytes().startswith(start)
    assert pd.read_parquet(out.with_name("out.parquet"))["mean"].tolist() == FIGURES[0].tolist()
    assert pd.read_excel(out)["mean"].tolist() == FIGURES[0].tolist()


@pytest.mark.parametrize("name", ["out.txt", "out", "out.xls", "out.gz", "out.model\x1b", "csv"])
def test_an_unknown_ending_is_refused(tmp_path, name):
    with pytest.raises(SettingError, match=r"none of \.csv, \.csv\.gz, \.parquet and \.xlsx"):
        check_ending(tmp_path / name)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
@pytest.mark.parametrize(
    ("delimiter", "number", "mean"),
    [(",", "1.5", "0.25"), (";", "1,5", "0,25"), (";", "1.5", "0.25"), ("\t", "1,5", "0,25")],
)
def test_csv_goes_out_in_the_dialect_it_came_in(tmp_path, encoding, delimiter, number, mean):
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    rows = [["höhe", "y"], [number, number]]
    source.write_text("\n".join(map(delimiter.join, rows)), encoding=encoding)
    written(source, out, figures=[np.array([0.25])], numeric=["höhe"])
    expected = [[*rows[0], "mean"], [*rows[1], mean]]
    assert out.read_bytes() == "".join(
        delimiter.join(row) + "\n" for row in expected).encode(encoding)


@pytest.mark.parametrize(
    ("cells", "mean"),
    [
        (("55,552", "94,591"), "0,2512345"), (("55.552", "94,591"), None),
        (("55.552", "94.591"), "0.2512345"), (("55", "Berlin, 12"), "0.2512345"),
    ],
)
def test_our_own_output_is_read_with_the_same_marks(tmp_path, cells, mean):
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text(f"a;b\n{';'.join(cells)}\n")
    if mean is None:  # one of the two marks stands between thousands
        with pytest.raises(DataError, match="where the mark may stand for thousands"):
            open_table(source).whole().numbers("a")
        return
    written(source, out, figures=[np.array([0.2512345])], numeric=["a"])
    assert out.read_text().splitlines()[1].endswith(f";{mean}")
    again, before = open_table(out).whole(), open_table(source).whole()
    assert again.numbers("mean").tolist() == [0.2512345]
    assert again.numbers("a").tolist() == before.numbers("a").tolist()


FORMULAS = ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "\t=1", "\r=1"]


def test_formulas_are_written_as_text_and_numbers_as_they_are(tmp_path):
    source = tmp_path / "in.csv"
    harmless = ["-1.5", "+2", "-1e5", "-", "red"]
    with source.open("w", newline="") as stream:
        csv.writer(stream).writerows([["=name"], *([cell] for cell in [*FORMULAS, *harmless])])
    zeros = [np.zeros(len(FORMULAS) + len(harmless))]
    out = tmp_path / "out.csv"
    writer = written(source, out, figures=zeros, numeric=())
    assert (writer.texts, writer.marked) == (len(FORMULAS), ["=name"])
    with out.open(newline="") as stream:
        cells = [row[0] for row in csv.reader(stream)]
    assert cells == ["'=name", *(f"'{cell}" for cell in FORMULAS), *harmless]
    out = tmp_path / "out.xlsx"
    assert written(source, out, figures=zeros, numeric=()).texts == len(FORMULAS)
    column = next(openpyxl.load_workbook(out).active.iter_cols(max_col=1))
    assert all(cell.data_type != "f" for cell in column)
    assert [cell.value for cell in column[:5]] == ["=name", "=1+1", "+cmd", "-2+3", "@SUM(A1)"]


def test_parquet_keeps_types_that_text_has_not(tmp_path):
    table = pa.table({
        "day": pa.array([datetime(2024, 1, 5, tzinfo=UTC)] * 3, pa.timestamp("ns", "UTC")),
        "colour": pa.array(["a", "b", None]).dictionary_encode(),
        "parts": pa.array([[1, 2], [], None]), "id": pa.array([2**60 + 1, 2, 3]),
    })
    source, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    pq.write_table(table, source)
    written(source, out, numeric=(), size=2)
    found = pq.read_table(out)
    assert found.schema.names == [*table.schema.names, "mean"]
    for name in table.schema.names:
        assert found[name].to_pylist() == table[name].to_pylist()
        assert found.schema.field(name).type == table.schema.field(name).type
    for ending in (".csv", ".xlsx"):
        out = tmp_path / f"out{ending}"
        written(source, out, numeric=())
        assert len(open_table(out).whole().rows) == 3


def test_excel_dates_and_times_survive(tmp_path):
    source = tmp_path / "in.xlsx"
    book = openpyxl.Workbook()
    for row in (["day", "a", "y"], [datetime(2024, 1, 5), True, 3], [None, 2, "#DIV/0!"]):
        book.active.append(row)
    book.save(source)
    figures = [np.array([np.nan, 2.0])]
    out = tmp_path / "out.xlsx"
    written(source, out, figures=figures, numeric=())
    rows = [list(row) for row in open_table(out).whole().rows]
    assert rows == [[datetime(2024, 1, 5), True, 3, None], [None, 2, "#DIV/0!", 2]]
    written(source, tmp_path / "out.parquet", figures=figures, numeric=())
    assert pq.read_table(tmp_path / "out.parquet")["day"].to_pylist() == [
        "2024-01-05 00:00:00", None]


def test_what_excel_cannot_hold_is_refused_not_cut(tmp_path, monkeypatch):
    source, out = tmp_path / "in.csv", tmp_path / "out.xlsx"
    source.write_text(f"a,y\n1,{'x' * 40_000}\n")
    with pytest.raises(DataError, match=r"column 'y' in line 2 has 40,000 characters"):
        written(source, out, figures=[np.zeros(1)])
    source.write_text("a,y\n" + "1,2\n" * 5)
    monkeypatch.setattr("pcegp.io.writers._ROWS", 5)
    with pytest.raises(SettingError, match="no more than 5 rows"):
        written(source, out, figures=[np.zeros(5)])
    source.write_text(",".join(f"c{k}" for k in range(16_384)) + "\n")
    with pytest.raises(SettingError, match="no more than 16,384 columns"):
        written(source, out)
    source.write_bytes(b"a,y\n1,\x01b\n")
    written(source, out, figures=[np.zeros(1)])
    assert open_table(out).whole().cells("y") == ["\\x01b"]


def test_equal_tables_make_equal_compressed_files(source):
    outs = [source.with_name(name) for name in ("one.csv.gz", "two.csv.gz")]
    for out in outs:
        written(source, out)
    assert outs[0].read_bytes() == outs[1].read_bytes()
    assert gzip.decompress(outs[0].read_bytes()).startswith(b"a,note,y,mean\n")
