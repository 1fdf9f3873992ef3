"""Limits for input from outside. They are checked before memory is taken; the error names the limit."""

MAX_FILE_BYTES = 64 * 2**20
"""The largest text file (JSON, list of case ids), and the largest file that a JSON file names, in bytes."""

MAX_RECORD_BYTES = 16 * 2**20
"""The longest line of `results.jsonl` and `finds.jsonl`, in bytes."""

MAX_PAGE_BYTES = 1_000_000
"""The largest documentation page, in bytes of UTF-8."""

MAX_PAGE_LINES = 20_000
"""The most lines of a documentation page."""

MAX_PAGE_DIGITS = 100
"""The most digits of a number in the code of a documentation page."""

MAX_NESTING = 64
"""The deepest nesting of brackets in a JSON file."""

MAX_ELEMENTS = 2**24
"""The largest number of elements of a tensor that a JSON file describes, its output included."""

MAX_VALUES_BYTES = 2**30
"""The most memory that the values of one JSON file may take, in bytes, over all its resources and dispatches."""

MAX_MESSAGE = 10_000
"""The most characters of an error message from outside that are kept."""

MAX_FRAME_HEADER = 2**20
"""The largest JSON header of a frame between opmap and its worker process, in bytes."""

MAX_FRAME_BODY = 2**31
"""The largest model with its tensors in a frame, in bytes."""

MAX_GRAPH_BYTES = 4 * 2**20
"""The largest serialized DirectML graph, in bytes. A part that is used several times counts several times."""
