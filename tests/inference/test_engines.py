"""Engines of inference: the laws of each, and how a model file names them."""

from __future__ import annotations

import pytest

from laws import engine_laws
from pcegp.errors import SettingError
from pcegp.inference import ENGINES, Exact, from_dict


@pytest.mark.parametrize("name", ENGINES)
@engine_laws.each()
def test_laws(law, name):
    law(ENGINES[name]())


def test_a_model_file_without_an_engine_means_the_exact_one():
    assert from_dict(None) == from_dict({}) == Exact()


def test_an_unknown_engine_lists_the_known_ones():
    with pytest.raises(SettingError, match="inference='guess' is not known: choose from exact"):
        from_dict({"name": "guess"})
