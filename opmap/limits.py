"""Limits for input from outside. They are checked before memory is taken; the error names the limit."""

MAX_FILE_BYTES = 64 * 2**20
"""The largest text file (JSON, list of case ids), and the largest file that a JSON file names, in bytes."""

MAX_RECORD_BYTES = 16 * 2**20
"""The longest line of `results.jsonl` and `finds.jsonl`, in bytes."""

MAX_RECORDS = 1_000_000
"""The most lines of `results.jsonl` that are read. The tier `full` has an eighth of that."""

MAX_PAGE_BYTES = 1_000_000
"""The largest documentation page, in bytes of UTF-8."""

MAX_PAGE_LINES = 20_000
"""The most lines of a documentation page."""

MAX_PAGE_CODE = 20_000
"""The most characters of code on a documentation page: ten times as many as on any page of Microsoft."""

MAX_PAGE_DIGITS = 100
"""The most digits of a number in the code of a documentation page."""

MAX_TENSORS = 256
"""The most tensors in an array of a descriptor."""

MAX_NESTING = 64
"""The deepest nesting of brackets in a JSON or TOML file."""

MAX_KEY_PARTS = 8
"""The most parts of a dotted key in a TOML file. The parser takes time for each pair of parts."""

MAX_BRACKETS = 2**20
"""The most objects and arrays in a JSON file, brackets in texts included: each takes more memory than its text."""

MAX_JSON_VALUES = 2**21
"""The most values in a JSON file of a results bundle, counted by brackets and commas, those in texts included."""

MAX_FAILURE_BYTES, MAX_FAILURES_BYTES = 2**27, 2**30
"""The largest folder of a failure in a results bundle, and the most that is read of all of them, in bytes."""

MAX_TOML_BYTES = 16 * 2**20
"""The largest TOML file, in characters. TOML takes more time and memory to read than JSON."""

MAX_DIGITS = 4300
"""The most digits of a decimal number in a file. Python refuses to read and to print a longer one."""

MAX_COMMANDS = 10_000
"""The most commands of a DxDispatch JSON file, and so the most dispatches; the most nodes of an ONNX model that are
judged."""

MAX_SIZES = 64
"""The most sizes, strides and flags of a tensor desc in a JSON file, and the most sizes of an array in a frame. A valid
tensor has at most 8 dimensions."""

MAX_DIMENSIONS = 32
"""The most sizes of an output in a results bundle, and of an array of an ONNX model: NumPy 1 makes no array of more."""

MAX_ELEMENTS = 2**24
"""The largest number of elements of a tensor that a JSON file describes, its output included."""

MAX_STRIDED_ELEMENTS = 2**20
"""The most elements of a strided tensor, and of the buffer that it spans: its addresses are computed one by one."""

MAX_VALUES_BYTES = 2**30
"""The most memory that the values of one JSON file may take, in bytes, over all its resources and dispatches."""

MAX_EXPOSED_BYTES = 2**28
"""The most bytes of inner values that one run of a model from outside shows as further outputs. More are shown by
several runs."""

MAX_IDS = 200_000
"""The most case ids that the option --case takes, the ids in files included. The tier `full` has fewer cases."""

MAX_GLOBS = 1_000
"""The most globs that cases are compared with: of the option --filter, and of a file of known failures."""

MAX_GLOB = 500
"""The longest glob and the longest case id, in characters."""

MAX_TEXT = 10_000
"""The longest text of a key in a file of known failures, in characters."""

MAX_VERSION = 200
"""The longest version or range of versions in a file of known failures, in characters."""

MAX_MESSAGE = 10_000
"""The longest message of a provider that is kept, in characters."""

MAX_LINE = 2_000
"""The longest line about bad input, in characters. The rest is cut off."""

MAX_SHOWN = 200
"""The longest value from outside within a message, in characters."""

MAX_NAME = 500
"""The longest name of a file before a message, in characters."""

MAX_FRAME_HEADER = 2**20
"""The largest JSON header of a frame between opmap and its worker process, in bytes."""

MAX_FRAME_BODY = 2**33
"""The largest model with its tensors in a frame, in bytes. A tensor of DirectML has less than 2^32."""

MAX_GRAPH_BYTES = 4 * 2**20
"""The largest serialized DirectML graph, in bytes. A part that is used several times counts several times."""

MAX_MODEL_PARTS = 2**20
"""The most fields of all messages in an ONNX file: nodes, names, attributes, numbers outside arrays. Each takes more
memory than its bytes."""

MAX_MESSAGES_DEEP = 64
"""The deepest nesting of messages in an ONNX file. A subgraph in a subgraph is three deeper."""

MAX_DATA_SETS = 1_000
"""The most folders `test_data_set_N` beside an ONNX model, and the most inputs and outputs in each."""

MAX_FOLDER_ENTRIES = 100_000
"""The most files and folders in a folder with an ONNX model."""
