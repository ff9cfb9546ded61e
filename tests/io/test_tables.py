"""Tables as people have them, and what becomes of their columns."""

from __future__ import annotations

import pytest

from pcegp.errors import DataError
from pcegp.io import Columns, make_encoding, open_table, read_training


def write(folder, text, name="table.csv", encoding="utf-8"):
    path = folder / name
    path.write_text(text, encoding=encoding, newline="")
    return path


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
