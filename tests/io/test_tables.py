"""Tables as people have them, and what becomes of their columns."""

from __future__ import annotations

import gzip
import os
import time
from datetime import date
from zipfile import ZipFile

import numpy as np
import openpyxl
import pandas as pd
import pytest

from pcegp.errors import DataError, SettingError, shown
from pcegp.io import Columns, make_encoding, open_table, read_training


def write(folder, text, name="table.csv", encoding="utf-8"):
    path = folder / name
    path.write_text(text, encoding=encoding, newline="")
    return path


def refusal(path, *, target="y", **columns):
    """The one sentence that a table gets."""
    with pytest.raises(DataError) as found:
        read_training(path, Columns(target, **columns))
    text = str(found.value)
    assert text.isprintable()
    assert len(text) < 600
    return text


@pytest.mark.parametrize(
    ("name", "text", "encoding"),
    [
        ("plain", "a,b,y\n1.5,2,3\n4,5.25,6\n", "utf-8"),
        ("byte-order mark", "a,b,y\n1.5,2,3\n4,5.25,6\n", "utf-8-sig"),
        ("semicolons", "a;b;y\n1.5;2;3\n4;5.25;6\n", "utf-8"),
        ("decimal commas", "a;b;y\n1,5;2;3\n4;5,25;6\n", "utf-8"),
        ("tabs", "a\tb\ty\n1.5\t2\t3\n4\t5.25\t6\n", "utf-8"),
        ("Windows lines", "a,b,y\r\n1.5,2,3\r\n4,5.25,6\r\n", "utf-8"),
        ("quotes", '"a","b","y"\n"1.5",2,3\n4,"5.25",6\n', "utf-8"),
        ("spaces", "a , b, y\n 1.5,2 ,3\n4, 5.25,6\n", "utf-8"),
        ("empty lines", "a,b,y\n\n1.5,2,3\n\n4,5.25,6\n\n", "utf-8"),
        ("no last newline", "a,b,y\n1.5,2,3\n4,5.25,6", "utf-8"),
        ("leading blank lines", "\n\n,,\na,b,y\n1.5,2,3\n4,5.25,6\n", "utf-8"),
        ("empty lines of delimiters", "a;b;y\n1.5;2;3\n;;\n4;5.25;6\n;;\n", "utf-8"),
        ("empty columns at the end", "a,b,y,,\n1.5,2,3,,\n4,5.25,6,,\n", "utf-8"),
        ("UTF-16", "a\tb\ty\n1,5\t2\t3\n4\t5,25\t6\n", "utf-16"),
        ("UTF-32", "a,b,y\n1.5,2,3\n4,5.25,6\n", "utf-32"),
        ("exponents", "a,b,y\n1.5e0,2E0,3\n4,525e-2,6\n", "utf-8"),
    ],
)
def test_tables_as_people_have_them(tmp_path, name, text, encoding):
    block = open_table(write(tmp_path, text, encoding=encoding)).whole()
    assert block.names == ("a", "b", "y")
    assert block.numbers("a").tolist() == [1.5, 4.0]
    assert block.numbers("b").tolist() == [2.0, 5.25]


def test_latin_letters_are_read(tmp_path):
    path = write(tmp_path, "höhe,y\n1,2\n3,4\n", encoding="latin-1")
    assert open_table(path).whole().names == ("höhe", "y")


def test_lines_are_named_after_empty_ones(tmp_path):
    block = open_table(write(tmp_path, 'a,y\n1,2\n\n"3\n",x\n')).whole()
    assert list(block.lines) == [2, 5]
    with pytest.raises(DataError, match="line 5"):
        block.numbers("y")


def test_a_missing_category_is_refused_or_belongs_to_none(tmp_path):
    text = "flow,load,colour,yield\n" + "1,5,red,2\n2,6,green,3\n3,7,blue,4\n4,8,,5\n"
    block = open_table(write(tmp_path, text)).whole()
    strict = make_encoding(block, "yield", None, ["colour"], impute=False)
    with pytest.raises(DataError, match="'colour' 1"):
        strict.inputs(block)
    lenient = make_encoding(block, "yield", None, ["colour"], impute=True)
    assert lenient.inputs(block)[3, 2:].tolist() == [0.0, 0.0, 0.0]


def test_a_column_of_groups_is_no_feature(tmp_path):
    path = write(tmp_path, "a,plant,b,y\n1,north,2,3\n4,south,5,6\n")
    table = read_training(path, Columns("y", group="plant"))
    assert table.encoding.names == ["a", "b"]
    assert table.X.tolist() == [[1.0, 2.0], [4.0, 5.0]]
    assert table.groups.tolist() == ["north", "south"]
    with pytest.raises(DataError, match="--group names 'site'"):
        read_training(path, Columns("y", group="site"))


@pytest.mark.parametrize("cell", ["", " ", "NA", "None"])
def test_a_row_without_a_group_is_refused(tmp_path, cell):
    path = write(tmp_path, f"a,plant,y\n1,north,3\n4,{cell},6\n5,{cell},7\n")
    assert refusal(path, group="plant") == (
        "column 'plant' names no group in line 3: fill that cell, or drop the row")
    path = write(tmp_path, "a,plant,y\n1,north ,3\n4, north,6\n")
    assert read_training(path, Columns("y", group="plant")).groups.tolist() == ["north"] * 2


def test_a_formula_without_a_value_is_no_group(tmp_path):
    path = workbook(tmp_path / "t.xlsx", [["a", "plant", "y"], [1, "=A2", 3], [4, "=A3", 6]])
    assert "column 'plant' holds '=A2' in line 2, which is a formula" in refusal(
        path, group="plant")


@pytest.mark.parametrize("option", ["features", "categorical"])
def test_an_option_that_names_no_column_is_refused(tmp_path, option):
    path = write(tmp_path, "a,y\n1,2\n3,4\n")
    with pytest.raises(SettingError, match=f"--{option} names nothing: name a column"):
        read_training(path, Columns("y", **{option: (" , ",)}))


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("units", "a,b,y\nm3/h,bar,kg\n1,2,3\n4,5,6\n",
         "column 'a' holds 'm3/h' in line 2, above numbers: delete that line if it holds units"),
        ("stray text", "a,y\n1,2\n2,3\nerror,4\n3,3\n",
         "column 'a' holds 'error' in line 4, which is not a number: correct it"),
        ("dates", "day,a,y\n2024-01-05,1,2\n2024-01-06,1,2\n",
         "column 'day' holds '2024-01-05' in line 2, which is a date or time: make a number"),
        ("German dates", "day,a,y\n05.01.2024 10:30,1,2\n06.01.2024 10:31,1,2\n", "is a date"),
        ("times", "day,a,y\n10:30,1,2\n10:31,1,2\n", "is a date or time"),
        ("English thousands", 'a,y\n1.5,1\n"1,234.5",2\n', "'1,234.5' in line 3, where a mark may "
         "stand for thousands: write such numbers as 1234.5"),
        ("German thousands", "a;y\n1,5;1\n1.234,5;2\n", "'1.234,5' in line 3, where a mark"),
        ("points in a table of commas", "a;y\n1.234;1,5\n950;2,5\n", "'1.234' in line 2, where"),
        ("commas in a table of points", "a\ty\n1,234\t1.5\n950\t2.5\n", "'1,234' in line 2"),
        ("commas between tabs", "a\ty\n1,234\t1\n950\t2\n", "'1,234' in line 2, where"),
        ("spaces", "a,y\n1 234,1\n950,2\n", "'1 234' in line 2, where a mark"),
        ("decimal comma", 'a,y\n"1,5",1\n', "'1,5' in line 2, which has a decimal comma"),
        ("percent", "a,y\n5%,1\n6 %,1\n", "'5%' in line 2, which has a sign behind"),
        ("underscores", "a,y\n1_0,1\n2_0,2\n", "the column 'a' is not numbers ('1_0' in line 2)"),
        ("two nameless columns", "a,,,y\n1,2,3,4\n", "without a name (such as columns 2, 3)"),
        ("beyond the names", "a,y,\n1,2,\n3,4,5\n", "line 3: '5' stands to the right"),
        ("open quotation", 'a,c,y\n1,"x,2\n3,z,4\n', "line 3: a quotation mark is missing"),
        ("bare quotation", 'a,c,y\n1,"5" tube,2\n', "line 2: a quotation mark is missing"),
        ("header of a cell too long", "a" * 200_000 + ",y\n1,2\n",
         f"line 1, column 1: '{'a' * 60}…' has more than 131,072 characters"),
        ("cell too long", f"a,y\n1,{'x' * 200_000}\n", "line 2, column 2: 'xxx"),
        ("long name", "a" * 100_000 + ",y\n1,2\n1,2\n1,x\n", "column 'y' holds 'x' in line 4"),
        ("long name of text", "a" * 100_000 + ",y\nx,2\nz,3\n", "aaa…' is not numbers"),
        ("NUL", "a,y\n1,2\n3\0,4\n", "line 3 holds a NUL byte"),
        ("NUL at once", "a,y\0\n1,2\n", "is not text"),
        ("UTF-16 without a mark", "a,y\n1,2\n".encode("utf-16-le"), "is not text"),
        ("half a character", "a\ty\n1\t2\n".encode("utf-16")[:-1], "line 2 holds bytes"),
        ("half a pair", "a,y\n1,2\n".encode("utf-16") + b"\0\xd8a\0", "line 3 holds bytes"),
        ("half a pair in UTF-8", b"a,c,y\n1,\xed\xa0\x80,3\n", "line 2 holds bytes that "
         "are no text in UTF-8"),
        ("one bad byte", "ä,y\n1,2\n3,4".encode() + b"\xff\n", "line 3 holds bytes"),
        ("one bad byte late", "ä,y\n".encode() + b"1,2\n" * 600_000 + b"\xff,4\n", "line 600002 "),
        ("no encoding", b"a,c,y\n1,\x81,3\n", "line 2 holds bytes that are no text in CP1252"),
        ("controls", "a\x1b[31m,y\n1\x1b[2J,2\n\u202e,2\n", r"'a\x1b[31m' is not numbers ('1\x1b["),
        ("control target", "a,y\n1,\x9b2J\n", r"'\x9b2J' in line 2"),
        ("numbers under an empty header", ",,\n1,2,3\n4,5,6\n", "no header line"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 40 else "",
)
def test_what_a_spreadsheet_cannot_say_gets_one_sentence(tmp_path, name, content, text):
    path = tmp_path / "table.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert text in refusal(path)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("a;y\n1,234;2,5\n1,950;4,5\n", 1.234),
        ("a;y\n1,234;2\n1,950;4\n", 1.234),
        ("a;y\n1.234;2.5\n950;4.5\n", 1.234),
        ("a;y\n1.234;2\n5.25;4,5\n", 1.234),  # its column has shown what the point is
        ("a\ty\n1,234\t2,5\n950\t4,5\n", 1.234),
        ("a,y\n1.234,2\n950,3\n", 1.234),
        ("flow, m3/h;y\n1,5;2\n3;4\n", 1.5),
        ('"a;1",y\n1.5,2\n3,4\n', 1.5),
    ],
)
def test_marks_that_are_not_in_doubt_are_read(tmp_path, text, first):
    assert read_training(write(tmp_path, text), Columns("y")).X[0, 0] == first


def test_compressed_tables_are_read_and_cut_ones_refused(tmp_path):
    text = "a,y\n" + "".join(f"{x},2\n" for x in np.random.default_rng(0).uniform(size=500))
    data = gzip.compress(text.encode())
    for name in ("table.csv.gz", "table.csv"):  # it is its beginning that tells
        path = tmp_path / name
        path.write_bytes(data)
        assert len(open_table(path).whole().rows) == 500
        for cut in (5, 200, len(data) - 3):
            path.write_bytes(data[:cut])
            assert "cannot be read" in refusal(path)
        path.write_bytes(data[:200] + b"x" + data[201:])
        assert "cannot be read" in refusal(path)


def workbook(path, rows):
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)
    return path


def test_workbooks_as_people_have_them(tmp_path):
    path = workbook(tmp_path / "t.xlsx", [
        [], [None], ["a", "b", "y", None, None], [1, 2, 3, None], [4, 5, 6, None, ""], [None, None],
    ])
    table = read_training(path, Columns("y"))
    assert table.encoding.names == ["a", "b"]
    assert table.X.tolist() == [[1.0, 2.0], [4.0, 5.0]]
    workbook(path, [["a", "b", "y"], ["m", "s", "kg"], [1, 2, 3], [4, 5, 6]])
    assert "column 'a' holds 'm' in line 2, above numbers" in refusal(path)
    workbook(path, [["a", "y", None], [1, 2, None], [3, 4, 5]])
    assert "line 3: '5' stands to the right" in refusal(path)
    workbook(path, [["d", "y"], [date(2024, 1, 1), 2], [date(2024, 1, 2), 3]])
    assert "is a date or time" in refusal(path)
    book = openpyxl.Workbook()
    book.remove(book.active)
    book.create_chartsheet()
    book.save(path)
    assert "has no sheet with cells, only charts" in refusal(path)


def test_damaged_workbooks_are_refused(tmp_path):
    rng = np.random.default_rng(0)
    path = workbook(tmp_path / "t.xlsx", [["a", "b", "y"], *rng.uniform(size=(2000, 3)).tolist()])
    data = path.read_bytes()
    for cut in (10, 1000, len(data) // 2, len(data) - 30):
        path.write_bytes(data[:cut])
        assert "cannot be read" in refusal(path)
    whole = read_training(workbook(path, [["a", "y"], [1, 2], [3, 4]]), Columns("y"))
    data = path.read_bytes()
    for place in rng.integers(len(data), size=60):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1:])
        try:
            found = read_training(path, Columns("y"))
        except DataError:
            continue
        assert found.X.tolist() == whole.X.tolist()


def test_a_size_written_in_a_workbook_hides_nothing(tmp_path):
    path = workbook(tmp_path / "t.xlsx", [["a", "y"], [1, 2], [3, 4]])
    with ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    assert b'ref="A1:B3"' in parts[sheet]
    parts[sheet] = parts[sheet].replace(b'ref="A1:B3"', b'ref="A1:A2"')
    with ZipFile(path, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    assert read_training(path, Columns("y")).X.tolist() == [[1.0], [3.0]]


def test_parquet_as_pandas_writes_it(tmp_path):
    path = tmp_path / "t.parquet"
    frame = pd.DataFrame({"c": pd.Categorical(["u", "v"] * 5), "k": pd.Categorical([1, 2] * 5),
                          "a": np.arange(10.0), "y": np.arange(10)})
    frame.to_parquet(path)
    table = read_training(path, Columns("y", categorical=("c",)))
    assert table.encoding.names == ["c=u", "c=v", "k", "a"]
    assert table.X[1].tolist() == [0.0, 1.0, 2.0, 1.0]
    assert "'c' is not numbers ('u' in line 1): name it with --categorical" in refusal(path)
    for cells, text in [
        ([[1, 2]] * 10, "holds '[1, 2]' in line 1, which is several values"),
        ([[1], [1, 2]] * 5, "is several values"), ([{"q": 1}] * 10, "is several values"),
        (pd.date_range("2024", periods=10), "is a date or time"),
    ]:
        frame.assign(l=cells).to_parquet(path)
        assert text in refusal(path, features=["a", "l"])
        assert read_training(path, Columns("y", features=["a"])).X.shape == (10, 1)
    data = path.read_bytes()
    for cut in (10, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:cut])
        assert "cannot be read" in refusal(path)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["flow, m3/h", "b"], ["flow, m3/h", "b"]),
        ([" flow, m3/h "], ["flow, m3/h"]),
        (["b, c"], ["b", "c"]),
        (["c", "b"], ["c", "b"]),
    ],
)
def test_a_name_with_commas_is_one_name(tmp_path, texts, expected):
    path = write(tmp_path, '"flow, m3/h",b,c,y\n1,2,3,4\n5,6,7,8\n')
    assert read_training(path, Columns("y", features=texts)).encoding.names == expected
    assert read_training(
        path, Columns("y", features=texts, categorical=(texts[0],))
    ).encoding.categories.keys() == {name for name in expected if name in texts[0]}


@pytest.mark.parametrize(("name", "which"), [("y", "--target"), ("plant", "--group")])
def test_a_categorical_target_or_group_is_refused(tmp_path, name, which):
    path = write(tmp_path, "a,plant,y\n1,p,u\n2,q,v\n")
    with pytest.raises(DataError, match=f"--categorical names '{name}', which {which} names: name"):
        read_training(path, Columns("y", categorical=(name,), group="plant"))


def test_a_categorical_column_that_is_no_feature_is_refused(tmp_path):
    path = write(tmp_path, "a,colour,y\n1,red,2\n2,blue,3\n")
    assert "--categorical names 'colour', which --features leaves out" in refusal(
        path, features=["a"], categorical=("colour",))


def test_a_column_without_a_name_is_not_trained_on(tmp_path):
    path = write(tmp_path, ",a,y\n0,1,3\n1,2,4\n")
    assert "column number 1 has no name" in refusal(path)
    assert read_training(path, Columns("y", ["a"])).X.shape == (2, 1)


def test_a_misspelt_name_is_answered_before_the_rows_are_read(tmp_path):
    # The last line would be refused if it were read.
    path = write(tmp_path, "Flow,load,yield\n" + "1,2,3\n" * 500_000 + "1,2\n")
    for columns, text in [
        ({"target": "yeild"}, "--target names 'yeild', which the table does not have: did you mean "
                              "'yield'? It has 'Flow', 'load', 'yield'"),
        ({"target": "yield", "features": ["flwo,load"]}, "did you mean 'Flow'?"),
        ({"target": "yield", "categorical": ("laod",)}, "--categorical names 'laod'"),
        ({"target": "yield", "group": "xyz"}, "--group names 'xyz', which the table does not have: "
                                              "it has 'Flow'"),
        ({"target": "\udcff\x1b[2J"}, r"--target names '\udcff\x1b[2J'"),
    ]:
        assert text in refusal(path, **columns)
    assert "line 500002: 2 fields" in refusal(path, target="yield")


def wide(folder, name, count):
    names = [name.format(k) for k in range(count)]
    rows = np.random.default_rng(0).uniform(size=(5, count + 1)).round(3)
    lines = [";".join(map(str, row)) for row in [[*names, "y"], *rows]]
    return write(folder, "\n".join(lines)), names


@pytest.mark.parametrize("name", ["c{:05d}", "a rather long name of a column, number {:05d}"])
def test_the_cost_of_columns_grows_in_proportion(tmp_path, name):
    def seconds(count):
        path, names = wide(tmp_path, name, count)
        times = []
        for _ in range(3):
            begin = time.process_time()
            table = read_training(path, Columns("y"))
            table.encoding.check_columns(open_table(path).names, with_target=True)
            with pytest.raises(DataError, match="did you mean 'yy'"):
                table.encoding.check_columns(["yy", *names], with_target=True)
            times.append(time.process_time() - begin)
        assert table.X.shape == (5, count)
        assert "does not have" in refusal(path, target=names[7] + "x")
        return min(times)

    assert seconds(20_000) < 8 * seconds(5_000)  # 4 in proportion, 16 by the square



def test_an_input_of_a_category_is_not_named_as_another_column(tmp_path):
    path = write(tmp_path, "colour,colour=red,y\nred,1,2\nblue,2,3\n")
    assert "inputs named 'colour=red'" in refusal(path, categorical=("colour",))


def test_text_that_is_shown_is_safe_and_short():
    for c in [*range(0x20), 0x7F, *range(0x80, 0xA0), 0x202E, 0x2066, 0xD800, 0x2028]:
        assert shown(f"a{chr(c)}b").isprintable()
    assert shown("größe, °C, 温度 🙂 'x'") == "größe, °C, 温度 🙂 'x'"
    assert shown("\x1b[2J") == r"\x1b[2J"
    assert shown("\udcff") == r"\udcff"
    assert shown("x" * 10**6, 5) == "xxxxx…"
    assert len(shown("\0" * 10**6)) < 300


def test_a_path_cannot_steer_a_terminal(tmp_path):
    path = tmp_path / os.fsdecode(b"a\x1b[2J\xff\n.csv")
    assert "does not exist" in refusal(path)
    path.write_text("")
    assert "is empty" in refusal(path)
