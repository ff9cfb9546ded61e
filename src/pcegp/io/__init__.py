"""Files: model archives, tables, and how the columns of a table become numbers."""

from pcegp.io.archive import read as read_archive
from pcegp.io.archive import write as write_archive
from pcegp.io.encoding import Encoding, make_encoding
from pcegp.io.encoding import from_dict as encoding_from_dict
from pcegp.io.files import (
    Together,
    at_once,
    check_writable,
    replacing,
    special,
    write_figures,
    write_text,
)
from pcegp.io.readers import open_table
from pcegp.io.tables import Block, Table, listed
from pcegp.io.training_table import Columns, TrainingData, read_training
from pcegp.io.writers import check_ending, table_writer

__all__ = [
    "Block", "Columns", "Encoding", "Table", "Together", "TrainingData", "at_once",
    "check_ending", "check_writable", "encoding_from_dict", "listed", "make_encoding",
    "open_table", "read_archive", "read_training", "replacing", "special", "table_writer",
    "write_archive", "write_figures", "write_text",
]
