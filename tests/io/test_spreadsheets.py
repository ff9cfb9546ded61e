"""Tables as spreadsheets leave them: no value changes its size, and no row is lost, in silence."""

from __future__ import annotations

import bz2
import lzma
import warnings
from zipfile import ZipFile

import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pcegp.errors import DataError, DataWarning
from pcegp.io import Columns, check_ending, open_table, read_training, table_writer


def write(folder, text, name="table.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


def workbook(path, *sheets):
    """Write sheets of rows; their names are one, two and so on."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in zip(("one", "two", "three"), sheets, strict=False):
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def refusal(path, target="y", **columns):
    with pytest.raises(DataError) as found:
        read_training(path, Columns(target, **columns))
    text = str(found.value)
    assert text.isprintable()
    return text


def inputs(path, target="y", **columns):
    return read_training(path, Columns(target, **columns)).X.tolist()


def column(cells, delimiter):
    """Write cells beside a target of whole numbers."""
    lines = [delimiter.join(["a", "y"]), *(f'"{cell}"{delimiter}{k}'
                                           for k, cell in enumerate(cells))]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("cells", "line", "mark"),
    [
        (["900", "1.000", "1.010"], 3, "."),
        (["0", "50", "1.200"], 4, "."),
        (["-900", "-1.010"], 3, "."),
        (["900", "", "1.010"], 4, "."),
        (["900", "1,000", "1,010"], 3, ","),
        (["1.234", "1.234.567"], 2, "."),
        (["1.234", "12.345,5"], 2, "."),
    ],
)
@pytest.mark.parametrize("delimiter", [";", "\t", "|", ","])
def test_whole_numbers_with_marks_between_thousands(tmp_path, cells, line, mark, delimiter):
    cell = cells[line - 2]
    first, last = cell.split(mark)
    assert refusal(write(tmp_path, column(cells, delimiter))) == (
        f"column 'a' holds '{cell}' in line {line}, where the mark may stand for thousands: "
        f"write {first}{last} if it does, {first}.{last}0 if it does not")


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1.000", "2.500", "12.250"], [1.0, 2.5, 12.25]),  # three decimals everywhere
        (["1,000", "2,500", "12,250"], [1.0, 2.5, 12.25]),
        (["900", "1.234", "2.5"], [900.0, 1.234, 2.5]),  # as many decimals as needed
        (["900", "1,234", "2,5"], [900.0, 1.234, 2.5]),
        (["900", "1.0100"], [900.0, 1.01]),  # what the message proposes
        (["900", "1.5e3", "1.234e0"], [900.0, 1500.0, 1.234]),
        (["900", "0.234", "1.010"], [900.0, 0.234, 1.01]),
        (["900", "1000", "1010"], [900.0, 1000.0, 1010.0]),
    ],
)
def test_decimals_are_read(tmp_path, cells, values):
    assert inputs(write(tmp_path, column(cells, ";"))) == [[value] for value in values]


@pytest.mark.parametrize(
    ("text", "is_read"),
    [
        # A point elsewhere makes it a decimal mark, but not for numbers with zeros at their end.
        ("a;b;y\n900;2.5;1\n1.234;3.5;2\n", True),
        ("a;b;y\n900;2.5;1\n1.010;3.5;2\n", False),
        ("a,b,y\n900,2.5,1\n1.010,3.5,2\n", False),  # as pandas writes what it took for text
        # Another column shows what the mark is, even if the model does not use it.
        ("a;b;y\n1.000;900;1\n2.500;1.010;2\n", False),
        ("a;b;y\n1.000;900;1\n2.500;1.010.000;2\n", False),
        ("a;b;y\n1.000;900;1\n2.500;1.013;2\n", True),
    ],
)
def test_other_columns_show_what_a_mark_is(tmp_path, text, is_read):
    path = write(tmp_path, text)
    if is_read:
        assert len(inputs(path, features=["a"])) == 2
    else:
        assert "where the mark may stand for thousands" in refusal(path, features=["a"])


def test_a_decimal_comma_far_below_counts(tmp_path):
    path = write(tmp_path, "a;y\n" + "900;1\n" * 1200 + "1,5;3\n1.013;3\n")
    assert "'1.013' in line 1203" in refusal(path)


def test_text_with_marks_in_workbooks_and_parquet(tmp_path):
    rows = [["a", "y"], [900, 1], ["1.010", 2], [950, 3]]
    assert "'1.010' in line 3, where the mark" in refusal(workbook(tmp_path / "t.xlsx", rows))
    pq.write_table(pa.table({"a": ["900", "1.013"], "y": [1, 2]}), tmp_path / "t.parquet")
    assert "'1.013' in line 2, where the mark" in refusal(tmp_path / "t.parquet")


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.timestamp("us", "Mars/Phobos")], ids=str)
def test_a_column_of_parquet_that_python_cannot_hold_is_named(tmp_path, kind):
    when = pa.array([2**62, 0]).cast(kind)
    pq.write_table(pa.table({"a": [1, 2], "when": when, "y": [1, 2]}), tmp_path / "t.parquet")
    text = refusal(tmp_path / "t.parquet", features=["a"])
    assert text.startswith(f"column 'when' of {tmp_path / 't.parquet'} holds values of the type "
                           f"{kind} that cannot be read (")
    assert text.endswith("): write them as text, or leave the column out of the file")


def test_missing_categories_are_counted(tmp_path):
    path = write(tmp_path, "a,c,y\n1,u,3\n2,,4\n3,v,4\n3,,5\n")
    with pytest.warns(DataWarning, match="2 rows have no 'c': a missing value belongs to no"):
        table = read_training(path, Columns("y", None, ("c",), impute=True))
    assert table.X[1].tolist() == [2.0, 0.0, 0.0]
    assert table.encoding.without_category(table.X) == {"c": 2}
    assert table.encoding.without_category(table.X[:1]) == {}


def predicted(source, out, numeric, target):
    table = open_table(source)
    with table_writer(out, check_ending(out), table, ["mean"], set(numeric), target) as writer:
        for block in table.blocks(2):
            writer.write(block, [block.numbers(name) for name in numeric])
    return out


@pytest.mark.parametrize("ending", [".parquet", ".xlsx"])
def test_a_target_of_numbers_is_written_as_numbers(tmp_path, ending):
    source, out = tmp_path / "in.csv", tmp_path / f"out{ending}"
    source.write_text("a;y;id\n1,5;2,50;007\n2;;008\n3;1e2;1\n")
    block = open_table(predicted(source, out, ["a"], "y")).whole()
    assert block.cells("y") == [2.5, None, 100.0]
    assert block.cells("id")[:2] == ["007", "008"]
    for other in ("unknown", "inf", "1.234"):  # nothing is lost if it is not a number
        source.write_text(f"a;y\n1,5;2,50\n2;{other}\n3,5;900\n")
        block = open_table(predicted(source, out, ["a"], "y")).whole()
        assert block.cells("y")[:2] == ["2,50", other]


def test_marks_in_doubt_stay_text_in_excel(tmp_path):
    source = write(tmp_path, "a;sales\n1,5;900\n2;1.013\n")
    block = open_table(predicted(source, tmp_path / "out.xlsx", ["a"], "")).whole()
    assert block.cells("sales") == [900, "1.013"]


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".xlsx"])
def test_a_name_like_a_formula_comes_back(tmp_path, ending):
    source = write(tmp_path, "=a,@c,y\n1,=u,2\n3,v,4\n")
    out = predicted(source, tmp_path / f"out{ending}", ["=a"], "y")
    assert open_table(out).names == ("=a", "@c", "y", "mean")
    assert not out.read_bytes().startswith(b"=")
    encoding = read_training(source, Columns("y", categorical=("@c",))).encoding
    for path in (source, out):
        assert encoding.inputs(open_table(path).whole()).tolist() == [[1, 1, 0], [3, 0, 1]]


@pytest.mark.parametrize(
    ("text", "names", "first"),
    [
        ("sep=;\na;y\n1,5;2\n3;4\n", ["a"], 1.5),
        ("SEP=,\r\na,y\r\n1.5,2\r\n3,4\r\n", ["a"], 1.5),
        ('"sep=|"\na|y\n1.5|2\n3|4\n', ["a"], 1.5),
        ("sep=\t\n# by X\na\ty\n1.5\t2\n3\t4\n", ["a"], 1.5),
        ("a|b|y\n1,5|2|3\n3|2|1\n", ["a", "b"], 1.5),
        ("# made by X\na,y\n1.5,2\n3,4\n", ["a"], 1.5),
        ("# made by X, Y and Z\n\n# at 12\na;b;y\n1,5;2;3\n3;2;1\n", ["a", "b"], 1.5),
        ("# made by X, Y\na,y\n1.5,2\n3,4\n", ["a"], 1.5),
        ("#,a,y\n1.5,2,3\n3,1,3\n", ["#", "a"], 1.5),  # the number of a row
        ("#;a;y\n1,5;2,5;2,5\n3,1;3,5;5,5\n", ["#", "a"], 1.5),
        ("# made by X\n# a,y\n1.5,2\n3,1\n", ["# a"], 1.5),  # as NumPy and gnuplot write a header
        ('"#\nno",a,y\n1.5,2,3\n3,1,3\n', ["#\nno", "a"], 1.5),
        ('#id,"a,b",y\n1.5,2,3\n3,1,3\n', ["#id", "a,b"], 1.5),
        ('#id,"a\nb",y\n1.5,2,3\n3,1,3\n', ["#id", "a\nb"], 1.5),
        ('# made by "X, Y"\na,y\n1.5,2\n3,4\n', ["a"], 1.5),
        ('# made by X, "Y\na,y\n1.5,2\n3,4\n', ["a"], 1.5),
        ("# made by X, Y\n# a,y\n1.5,2\n3,4\n", ["# a"], 1.5),
        ('"flow,\nm3/h";y\n1,5;2\n3;4\n', ["flow,\nm3/h"], 1.5),
    ],
)
def test_what_stands_above_the_header(tmp_path, text, names, first):
    table = read_training(write(tmp_path, text), Columns("y"))
    assert table.encoding.names == names
    assert table.X[0, 0] == first


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('#,name,y\n1,"Smith, J",3\n', ("#", "name", "y")),
        ("#colour,shape\nred,round\nblue,flat\n", ("#colour", "shape")),  # no number at all
        ("# by X, Y\ncolour,y\nred,3\n", ("colour", "y")),
        ("#" + "x" * 200_000 + "\na,y\n1,3\n", ("a", "y")),  # more than a cell may have
    ],
)
def test_a_header_that_begins_with_a_mark_of_comments_is_kept(tmp_path, text, names):
    assert open_table(write(tmp_path, text)).names == names


def test_lines_are_counted_from_the_top_of_the_file(tmp_path):
    for above in ("sep=,\n", "# made by X\n"):
        assert "'x' in line 5" in refusal(write(tmp_path, f"{above}a,y\n1,2\n3,4\n5,x\n"))
        assert "line 4: 3 fields" in refusal(write(tmp_path, f"{above}a,y\n1,2\n3,4,5\n"))
        assert "line 4: a quot" in refusal(write(tmp_path, f'{above}a,y\n1,2\n3,"4"5\n'))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Plant 2024\n\na;b;y\n1,5;2;3\n3;2;1\n", "line 1 has 1 cell (such as 'Plant 2024') and "
         "the lines below have 3: delete what stands above the line that names the columns"),
        ("\nPlant, 2024\na;b;y\n1,5;2;3\n3;2;1\n", "line 2 has 1 cell (such as 'Plant, 2024')"),
        ("Plant 2024,,\n,,\na,b,y\n1.5,2,3\n3,2,1\n", "line 1 has 1 cell (such as 'Plant 2024')"),
        ("Date;2024\nBy;Me\nTime;a;b;y\n1;2;3;4\n3;2;1;4\n3;2;1;4\n", "line 1 has 2 cells"),
        ("sep=:\na:y\n1:2\n", "line 1 says that ':' stands between columns"),
    ],
)
def test_a_title_is_named(tmp_path, text, found):
    assert found in refusal(write(tmp_path, text))


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (bz2.compress(b"a,y\n1,2\n"), "is compressed by bzip2: unpack it"),
        (lzma.compress(b"a,y\n1,2\n"), "is compressed by xz: unpack it"),
        (b"PK\x03\x04" + bytes(20), "is compressed by zip: unpack it, or let its name end in"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(20), "is a workbook of an old Excel"),
        (b"PAR1" + bytes(20), "is Apache Parquet: let its name end in .parquet"),
        (b'[{"a": 1, "y": 2}]', "is JSON, and no table of rows and columns: write it as CSV"),
        (b'\n{\n "a": [1], "y": [2]}', "is JSON, and no table"),
        (b"<!DOCTYPE html>\n<table>", "is HTML or XML, and no table"),
        (b'\xef\xbb\xbf<?xml version="1.0"?>', "is HTML or XML, and no table"),
        (b"a y\n1 2\n3,5 4\n", "has blanks between its columns: write commas, semicolons, tabs or"),
        (b" a   y\n 1   2\n 3.5 4\n", "has blanks between its columns"),
    ],
)
def test_what_is_no_csv_is_called_what_it_is(tmp_path, data, what):
    path = tmp_path / "t.csv"
    path.write_bytes(data)
    assert refusal(path).startswith(f"{path} {what}")


@pytest.mark.parametrize(
    ("text", "names", "first"),
    [
        ("[a];y\n1;2\n", ["[a]"], 1.0), ("{a},y\n1,2\n", ["{a}"], 1.0),
        ("<a>,y\n1,2\n", ["<a>"], 1.0),
        ("a b;y\n1;2\n", ["a b"], 1.0),
        ('a, "b, c", y\n1, "2", 3\n', ["a", "b, c"], 1.0),
        ('a; y\n"1,5"; "2"\n', ["a"], 1.5),
        ("a;y\n\N{MINUS SIGN}1,5;\N{MINUS SIGN}2\n", ["a"], -1.5),
    ],
)
def test_what_looks_odd_and_is_read(tmp_path, text, names, first):
    table = read_training(write(tmp_path, text), Columns("y"))
    assert table.encoding.names == names
    assert table.X[0, 0] == first


def test_a_minus_sign_changes_no_doubt(tmp_path):
    path = write(tmp_path, column(["900", "\N{MINUS SIGN}1.010"], ";"))
    assert "where the mark may stand for thousands: write -1010 if" in refusal(path)


DATA = [["a", "y"], [1, 2], [3, 4]]


def test_the_sheet_that_is_read(tmp_path):
    path = tmp_path / "t.xlsx"
    assert inputs(workbook(path, [], DATA)) == [[1.0], [3.0]]
    assert inputs(workbook(path, [[None]], [], DATA)) == [[1.0], [3.0]]
    assert inputs(workbook(path, DATA, [["b"]])) == [[1.0], [3.0]]
    assert refusal(workbook(path, [], DATA, DATA)) == (
        f"the first sheet 'one' of {path} is empty, and 'two', 'three' are not: move the one to "
        "read to the front")
    assert "is empty" in refusal(workbook(path, [], []))
    assert (f"has 'Notes'; this is the sheet 'one' of {path}, which also has 'two': move the one "
            "to read to the front") in refusal(workbook(path, [["Notes"]], DATA, []))
    assert "line 1 has 1 cell" in refusal(workbook(path, [["Plant"], [], *DATA]))
    table = open_table(workbook(path, [], DATA, DATA))
    for _ in range(2):  # asked again, it says the same
        with pytest.raises(DataError, match=r"the first sheet 'one' of .* is empty"):
            table.whole()


def test_a_hidden_sheet_is_not_read(tmp_path):
    path = workbook(tmp_path / "t.xlsx", [["a", "y"], [7, 8], [9, 8]], DATA)
    book = openpyxl.load_workbook(path)
    book["one"].sheet_state = "hidden"
    book.active = 1
    book.save(path)
    assert inputs(path) == [[1.0], [3.0]]


def test_hidden_rows_are_used_with_a_note(tmp_path):
    path = workbook(tmp_path / "t.xlsx", [*DATA, [5, 6]], DATA)
    book = openpyxl.load_workbook(path)
    for row in (3, 4, 9):  # in the last one is nothing
        book["one"].row_dimensions[row].hidden = True
    book["one"].column_dimensions["A"].hidden = True
    book["two"].row_dimensions[2].hidden = True
    book.save(path)
    table = open_table(path)
    with pytest.warns(DataWarning, match="^2 rows of .* cannot be seen in Excel"):
        assert table.whole().rows == [(1, 2), (3, 4), (5, 6)]
    list(table.blocks(1))  # says it no more


def test_sheets_of_charts_are_passed_over(tmp_path):
    path = tmp_path / "t.xlsx"
    book = openpyxl.load_workbook(workbook(path, DATA))
    book.create_chartsheet("chart", 0)
    book.save(path)
    assert inputs(path) == [[1.0], [3.0]]
    del book["one"]
    book.save(path)
    assert "has no sheet with cells, only charts: give" in refusal(path)


def test_a_formula_without_a_value_is_no_missing_value(tmp_path):
    rows = [["a", "b", "y"], *([k, "u", k] for k in range(1500)), [3, "=A2*2", "=1+1"], [4, "v", 5]]
    path = workbook(tmp_path / "t.xlsx", rows)
    end = "is a formula without a value (cell {}): open the file in Excel and save it"
    assert refusal(path, features=["a"]) == (
        "column 'y' holds '=1+1' in line 1502, which " + end.format("C1502"))
    text = refusal(path, categorical=("b",), impute=True)
    assert "column 'b' holds '=A2*2' in line 1502, which " + end.format("B1502") == text
    assert "the name of a column is '=1+1'" in refusal(workbook(path, [["a", "=1+1", "y"], *DATA]))
    workbook(path, [["a", "b"], [1, "=A2*2"]])
    for ending, cell in ((".csv", "'=A2*2"), (".xlsx", "=A2*2"), (".parquet", "=A2*2")):
        block = open_table(predicted(path, tmp_path / f"out{ending}", ["a"], "b")).whole()
        assert block.cells("b") == [cell]


def test_a_formula_whose_value_is_no_text_is_missing(tmp_path):
    path = workbook(tmp_path / "t.xlsx", [["a", "y"], [1, 2], ['=IF(A2>0,"",1)', 3], [3, 4]])
    with ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    assert b'<c r="A3"><f>' in parts[sheet]
    parts[sheet] = parts[sheet].replace(b'<c r="A3"><f>', b'<c r="A3" t="str"><f>')
    with ZipFile(path, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    assert inputs(path, impute=True) == [[1.0], [2.0], [3.0]]


def test_names_that_are_the_same(tmp_path):
    text = "several columns named 'a' (blanks at the ends of a name do not count): rename them"
    assert text in refusal(write(tmp_path, "a,a ,y\n1,2,3\n"))
    pq.write_table(pa.table({"a": [1], "a ": [2], "y": [3]}), tmp_path / "t.parquet")
    assert text in refusal(tmp_path / "t.parquet")
    path = write(tmp_path, "a,b,y\n1,u,3\n2,v,4\n")
    for columns in ({"features": ["a,a"]}, {"features": ["a", "b", "a"]}):
        assert refusal(path, **columns) == (
            "--features names 'a' more than once: name each column once")
    assert "--categorical names 'b' more than once" in refusal(path, categorical=("b", "b"))


def test_an_index_is_no_feature(tmp_path):
    path = tmp_path / "t.parquet"
    frame = pd.DataFrame({"a": [1.0, 3.0], "y": [3.0, 4.0]}, index=["first", "second"])
    frame.to_parquet(path)
    assert "'__index_level_0__' looks like the numbers of the rows" in refusal(path)
    assert inputs(path, features=["a"]) == [[1.0], [3.0]]
    assert "'Unnamed: 0' looks" in refusal(write(tmp_path, "Unnamed: 0,a,y\n0,1,2\n1,2,3\n"))


def test_a_row_of_sums_is_no_data(tmp_path):
    path = write(tmp_path, "n,a,y\nx,1,3\nz,2,4\nSumme:,3,7\n")
    assert refusal(path, features=["a"]) == (
        "column 'n' holds 'Summe:' in line 4, the last one, and 'a' holds the sum or mean of the "
        "rows above there, so it is no row of data: delete that line")
    path = write(tmp_path, "n,a,y\nmean,1,3\nz,2,4\nmean,3,7\n")
    assert inputs(path, features=["a"]) == [[1.0], [2.0], [3.0]]


@pytest.mark.parametrize(
    ("last", "is_refused"),
    [("7.5,9", True), ("7.4,2.3", True), ("7.4,2,3", True), ("7.5,", True), ("7.4,3", False),
     (",3", False), ("3.5,2", False)],
)
def test_a_word_for_sums_counts_where_a_column_holds_one(tmp_path, last, is_refused):
    text = "n;a;y;k\nx;1.5;2;1\nz;2.5;1;1\nw;3.5;4;1\nMedia;{};{};1\n".format(
        *last.split(",", 1))
    path = write(tmp_path, text)
    columns = {"features": ["a"], "impute": True, "target": "k"}
    if is_refused:
        assert "so it is no row of data" in refusal(path, **columns)
    else:
        with pytest.warns(DataWarning, match="'Media' in line 5, the last one: if that is no row"):
            assert len(inputs(path, **columns)) == 4


@pytest.mark.parametrize(
    ("cells", "count"),
    [
        ([1, -999, 3, -999], 2), ([1, 9999, 3, 5], 1), ([-20, -99, 30, 5], 1),
        ([900, 999, 950, 990], 0), ([-99, -98, -97, -50], 0), ([999, 999, 999, 999], 0),
    ],
)
def test_numbers_that_may_stand_for_missing_values_get_a_note(tmp_path, cells, count):
    text = "a,y\n" + "".join(f"{cell},{k}\n" for k, cell in enumerate(cells))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        inputs(write(tmp_path, text))
    assert len(found) == (count > 0)
    if count:
        assert "far from its other values" in str(found[0].message)
        assert ("and in 1 more rows" in str(found[0].message)) == (count == 2)


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("€5.12", "which has a sign before the number: write the number alone"),
        ("5.12 €", "which has a sign behind the number: write the number alone"),
        ("$ 5", "which has a sign before the number"),
        ("12%", "which has a sign behind the number"),
        ("20°", "which has a sign behind the number"),
        ("0x33", "which is a hexadecimal number: write 51"),
        ("5 kg", "which has a unit behind the number"),
        ("5kg", "which has a unit behind the number"),
        ("1,234 m", "which has a unit behind the number"),
        ("-2.5 kg/m3", "which has a unit behind the number"),
        ("20 °C", "which has a unit behind the number"),
        ("3 A", "which has a unit behind the number"),
    ],
)
def test_numbers_with_signs_are_no_categories(tmp_path, cell, text):
    table = "a;y\n" + "".join(f"{cell};{k}\n" for k in range(5))
    assert refusal(write(tmp_path, table)) == f"column 'a' holds '{cell}' in line 2, " + (
        text if "alone" in text or "write" in text else f"{text}: write the number alone")


@pytest.mark.parametrize("cell", [
    "1-Jan", "01-Jan-2024", "2024-01", "10:30 AM", "10:30:15.5 pm", "Jan 2024", "2024-W05",
    "1. Januar 2024", "20240101T101010", "20240101T101010Z", "5 mars 2024", "2024 März", "3rd May",
    "January 5, 2024", "5. Dez. 2024 10:30", "12 févr. 24",
])
def test_dates_are_no_categories(tmp_path, cell):
    path = write(tmp_path, f'a;y\n"{cell}";1\n"{cell}";2\n')
    assert refusal(path).startswith(
        f"column 'a' holds '{cell}' in line 2, which is a date or time: make a number of it")


@pytest.mark.parametrize("cell", ["3A", "room 5", "Mark 2020", "1000-01", "MAY", "12x", "5-3"])
def test_names_with_numbers_may_be_categories(tmp_path, cell):
    assert "name it with --categorical" in refusal(write(tmp_path, f"a;y\n{cell};1\nq;2\n"))


def test_two_decimal_marks_in_one_column(tmp_path):
    path = write(tmp_path, "a;y\n5.12;1\n5,12;2\n7;3\n")
    assert refusal(path) == (
        "column 'a' holds '5,12' in line 3, which has a decimal comma, and other cells of this "
        "column have a decimal point: write all of them with the same mark")
    path = write(tmp_path, "a,y\n5.12,1\n\"5,12\",2\n7,3\n")
    assert "'5,12' in line 3, which has a decimal comma: write 1.5" in refusal(path)
    assert inputs(write(tmp_path, "a;b;y\n5.12;5,12;1\n7;8;3\n")) == [[5.12, 5.12], [7.0, 8.0]]


@pytest.mark.parametrize(("ending", "marked"), [(".csv", ["=a", "@c"]), (".xlsx", []),
                                                (".parquet", [])])
def test_names_that_are_changed_are_told_apart_from_cells(tmp_path, ending, marked):
    source = write(tmp_path, "=a,@c,y\n1,=u,2\n3,v,4\n")
    table, out = open_table(source), tmp_path / f"out{ending}"
    with table_writer(out, check_ending(out), table, ["mean"], {"=a"}) as writer:
        for block in table.blocks(2):
            writer.write(block, [block.numbers("y")])
    assert list(writer.marked) == marked
    assert writer.texts == (0 if ending == ".parquet" else 1)
