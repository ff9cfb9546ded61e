"""Files: model archives, tables, and how the columns of a table become numbers."""

from pcegp.io.archive import read as read_archive
from pcegp.io.archive import write as write_archive
from pcegp.io.encoding import Encoding, make_encoding
from pcegp.io.encoding import from_dict as encoding_from_dict
from pcegp.io.files import check_writable, replacing, write_figures, write_text
from pcegp.io.tables import Block, Table, listed, open_table
from pcegp.io.training_table import Columns, TrainingData, read_training

__all__ = [
    "Block", "Columns", "Encoding", "Table", "TrainingData", "check_writable",
    "encoding_from_dict", "listed", "make_encoding", "open_table", "read_archive",
    "read_training", "replacing", "write_archive", "write_figures", "write_text",
]
