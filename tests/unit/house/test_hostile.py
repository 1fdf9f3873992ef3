"""Hostile input of every kind is taken or refused in one line. `tools/fuzz_inputs.py` tries more of it."""

import random

import pytest
from hostile_targets import TARGETS, attack, mutate

_WRITTEN = ("written run.json", "written diagnosis.json", "written results.jsonl")

COUNTS = {"npy": 1_500, "spec": 60, **dict.fromkeys(("run.json", "results.jsonl", *_WRITTEN), 60)}
"""Target -> how many inputs it gets if not 400, so that no target takes more than a second."""


HERE = [target for name, target in TARGETS.items() if name != "page"]  # test_hostile_pages.py has a mutator for pages


@pytest.mark.parametrize("target", HERE, ids=lambda target: target.name)
class TestHostile:
    """Inputs of a mutator with a fixed seed, so that each run has the same ones."""

    def test_seeds(self, target, tmp_path):
        """The inputs that the mutator starts with are valid."""
        for data in target.seeds(tmp_path):
            assert data
            assert attack(target, data, tmp_path) is None

    def test_mutations(self, target, tmp_path):
        """Nothing but OpmapError is raised, with one short line."""
        seeds, refused = target.seeds(tmp_path), 0
        count = COUNTS.get(target.name, 400)
        for number in range(count):
            data = mutate(seeds, random.Random(number))
            try:
                refused += attack(target, data, tmp_path) is not None
            except BaseException as error:
                error.add_note(f"input {number}: {data[:500]!r}")
                raise
        assert 0 < refused
