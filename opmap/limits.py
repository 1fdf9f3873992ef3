"""What opmap accepts from outside, checked before memory is taken. Errors name the limit that was passed."""

MAX_FILE_BYTES = 64 * 2**20
"""Size of a JSON file, of a list, or of a file that a JSON file names."""

MAX_PAGE_BYTES = 1_000_000
"""Size of a documentation page."""

MAX_NESTING = 64
"""Depth of brackets in a JSON file."""

MAX_ELEMENTS = 2**24
"""Elements of one tensor in a file, and of the output that follows from it."""

MAX_VALUES_BYTES = 2**30
"""Memory that the values of one JSON file take, over all its resources and dispatches."""

MAX_FRAME_HEADER = 2**20
"""Bytes of the JSON header of a frame between opmap and its worker process."""

MAX_FRAME_BODY = 2**31
"""Bytes of a frame's model and tensors."""
