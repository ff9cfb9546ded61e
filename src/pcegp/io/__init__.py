"""Files: model archives, tables, and how the columns of a table become numbers."""

from pcegp.io.archive import START, ZIP_START, is_model_start
from pcegp.io.archive import read as read_archive
from pcegp.io.archive import write as write_archive
from pcegp.io.encoding import Encoding, category_note, make_encoding
from pcegp.io.encoding import from_dict as encoding_from_dict
from pcegp.io.files import (
    Together,
    check_plain,
    replacing,
    taking_place_alone,
    write_figures,
    write_text,
)
from pcegp.io.locks import lock
from pcegp.io.places import folder_of, is_address, named_path, output_path
from pcegp.io.readers import open_table
from pcegp.io.tables import Block, Table, listed
from pcegp.io.training_table import Columns, TrainingData, read_training
from pcegp.io.writers import Writer, check_ending, table_writer

__all__ = [
    "START", "ZIP_START", "Block", "Columns", "Encoding", "Table", "Together", "TrainingData",
    "Writer", "category_note", "check_ending", "check_plain", "encoding_from_dict", "folder_of",
    "is_address", "is_model_start", "listed", "lock", "make_encoding", "named_path", "open_table",
    "output_path", "read_archive", "read_training", "replacing", "table_writer",
    "taking_place_alone", "write_archive", "write_figures", "write_text",
]
