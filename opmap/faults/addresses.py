"""Faults in the addresses: axes, batches, dimension counts, strides, sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..mapping.memory import GAP
from ..pseudocode import Address, Computed, Expression, IndexRead, Term, strides_of
from .case_arrays import Bits, CaseArrays, Numbers
from .fault import Fault

ChangeAddress = Callable[[Address], Address]

_NEEDS_65536 = "an input of more than 65536 elements"
_NEEDS_64K = "an input of more than 65536 bytes"
_NEEDS_DIMENSION = "a dimension longer than 65535"


def _block_moved(place: Callable[[int, int], int]) -> ChangeAddress:
    """Moves the dimensions that read an index, as one block, to start at `place(first, dimension count)`.

    `first` is the dimension where the block starts now.
    """

    def change(address: Address) -> Address:
        block = address.axis_dimensions
        if not block:
            return address
        other_dimensions = [i for i in range(len(address.terms)) if i not in block]
        first = place(block[0], len(address.terms)) % (len(other_dimensions) + 1)
        return address.arranged(other_dimensions[:first] + block + other_dimensions[first:])

    return change


def _block_moved_by_padding(address: Address) -> Address:
    """Subtracts the number of leading dimensions of size 1 from the axis."""
    padding = next((i for i, size in enumerate(address.sizes) if size != 1), len(address.sizes))
    return _block_moved(lambda first, count: max(first - padding, 0))(address)


def _at_zero(chosen: Callable[[int, Term, Address], bool]) -> ChangeAddress:
    """Sets the position to 0 in each dimension for which `chosen(dimension, term, address)` is true."""
    return lambda address: address.change(lambda i, term: term.at_zero() if chosen(i, term, address) else term)


def _limited_late(address: Address) -> Address:
    """Limits computed positions to their dimensions, and no number on the way to them."""

    def unlimited(node: Expression) -> Expression:
        return node.operands[0] if isinstance(node, Computed) and node.operator == "min" else node

    def change(i: int, term: Term) -> Term:
        free = term.computed and term.computed.change(unlimited)
        if free is None or free == term.computed:
            return term
        return term._replace(computed=Computed("max", (Computed("min", (free, term.size - 1)), 0)))

    return address.change(change)


def _order_reversed(dimensions: Callable[[Address], Sequence[int]]) -> ChangeAddress:
    """Reverses the order of the positions in some dimensions; those of size 1 or without a loop stay."""

    def change(address: Address) -> Address:
        order = list(range(len(address.terms)))
        chosen = [i for i in dimensions(address) if address.terms[i].loops and address.terms[i].size > 1]
        for i, j in zip(chosen, reversed(chosen), strict=True):
            order[i] = j
        return address.arranged(order)

    return change


def _strides_from(sizes: Callable[[Address], Sequence[int]]) -> ChangeAddress:
    """Replaces the strides by the row-major strides of other sizes, right-aligned."""

    def change(address: Address) -> Address:
        count = len(address.terms)
        return address.with_strides(strides_of(((1,) * count + tuple(sizes(address)))[-count:]))

    return change


def _index_sizes(address: Address) -> tuple[int, ...]:
    """Returns the sizes of the first index tensor."""
    return next(read.sizes for read in address.reads)


def _rows_of_four(address: Address) -> tuple[int, ...]:
    """Returns the sizes with the last one rounded up to a multiple of four."""
    return (*address.sizes[:-1], *(-(-size // 4) * 4 for size in address.sizes[-1:]))


def _order_inverted(address: Address) -> Address:
    """Puts the dimensions in memory into the inverse order: if the third lies outermost, the outermost becomes the
    third.
    """
    strides = [term.stride for term in address.terms]
    outermost_first = sorted(range(len(strides)), key=lambda d: -strides[d])
    return address.with_strides([strides[outermost_first[d]] for d in outermost_first])


def _repeats_nothing(address: Address) -> Address:
    """Gives dimensions with the stride 0 the strides of a packed tensor."""
    packed = strides_of(address.sizes)
    return address.change(lambda i, term: term if term.stride else term._replace(stride=packed[i]))


def _column_major(address: Address) -> Address:
    return address.with_strides(strides_of(address.sizes[::-1])[::-1])


def _sizes_cut(address: Address) -> Address:
    sizes = tuple(size & 0xFFFF for size in address.sizes)
    if sizes == address.sizes:
        return address
    changed = address.with_strides(strides_of(sizes))
    return changed.change(lambda i, term: term._replace(size=sizes[i]))


def _batch_0(*, data: bool, indices: bool) -> ChangeAddress:
    """Sets the batch to 0: in the data, in the index tensors, or in both."""

    def change(address: Address) -> Address:
        batches = address.shared_loops
        if indices:
            address = address.change_reads(lambda read: _without_loops(read, batches))
        return _at_zero(lambda i, term, _: bool(term.loops & batches))(address) if data else address

    return change


def _without_loops(read: IndexRead, loops: set[int]) -> IndexRead:
    return read._replace(steps=tuple((loop, step) for loop, step in read.steps if loop not in loops))


def _batches_reversed(address: Address) -> Address:
    batches = address.shared_loops
    return _order_reversed(lambda a: [i for i, term in enumerate(a.terms) if term.loops & batches])(address)


def _innermost_at_zero(address: Address) -> Address:
    """Keeps the last loop longer than 1 at its first position."""
    last = max((loop for loop, length in enumerate(address.loops) if length > 1), default=None)
    if last is None:
        return address
    fixed = address.change(lambda i, term: term.without_loop(last))
    return fixed.change_reads(lambda read: _without_loops(read, {last}))


def _unbroadcast(address: Address) -> Address:
    return address.change(lambda i, term: term._replace(stride=0) if term.size == 1 else term)


def _before_index(address: Address) -> range:
    """Returns the dimensions in front of the first index."""
    return range(min(address.axis_dimensions, default=0))


def _behind_index(address: Address) -> range:
    """Returns the dimensions behind the last index."""
    count = len(address.terms)
    return range(max(address.axis_dimensions, default=count - 1) + 1, count)


def _more_than_4_dimensions(arrays: CaseArrays) -> bool:
    return len(arrays.address.terms) > 4


def _at_word_start(addresses: Numbers, arrays: CaseArrays) -> Numbers:
    per_word = max(4 // arrays.data_type.size, 1)
    return addresses // per_word * per_word


def _reads_constant(arrays: CaseArrays) -> bool:
    """Returns whether every write reads one element, which is not the first one."""
    source = arrays.move.source
    return (
        arrays.address is not source
        and not any(t.loops or t.read for t in source.terms)
        and any(term.constant for term in source.terms)
    )


def _along_last(bits: Bits, arrays: CaseArrays) -> Bits:
    """Reads the element at the stride of the last dimension. A packed dimension of size 1 has stride 0."""
    source = arrays.move.source
    tensor = arrays.case.desc.tensors[arrays.case.desc.own_spec.pseudocode.tensors[source.tensor]]
    stride = tensor.strides[-1] if tensor.strides else int(tensor.sizes[-1] > 1)
    memory = tensor.write(arrays.data.tolist(), int.from_bytes([GAP] * tensor.data_type.size))
    data = arrays.data.copy()
    data[arrays.element_addresses(source)[0]] = memory[stride] if stride < len(memory) else 0
    return arrays.with_data(data).right


def _bytes_cut(addresses: Numbers, arrays: CaseArrays) -> Numbers:
    return (addresses * arrays.data_type.size & 0xFFFF) // arrays.data_type.size


ADDRESS_FAULTS = {
    # the axis
    "axis-first": Fault(text="the axis is taken as 0", address=_block_moved(lambda first, count: 0)),
    "axis-last": Fault(
        text="the axis is taken as the last dimension", address=_block_moved(lambda first, count: count - 1)
    ),
    "axis-next": Fault(text="the axis is one too high", address=_block_moved(lambda first, count: first + 1)),
    "axis-previous": Fault(text="the axis is one too low", address=_block_moved(lambda first, count: first - 1)),
    "axis-from-the-end": Fault(
        text="the axis is counted from the last dimension",
        address=_block_moved(lambda first, count: count - 1 - first),
    ),
    "axis-modulo-4": Fault(text="the axis is taken modulo 4", address=_block_moved(lambda first, count: first % 4)),
    "axis-without-padding": Fault(
        text="the axis is counted without the leading dimensions of size 1", address=_block_moved_by_padding
    ),
    # the coordinates in front of the index and behind it
    "leading-block-ignored": Fault(
        text="the coordinates in front of the index are taken as 0",
        address=_at_zero(lambda i, term, address: i in _before_index(address)),
    ),
    "leading-order-reversed": Fault(
        text="the coordinates in front of the index are used in reverse order", address=_order_reversed(_before_index)
    ),
    "trailing-block-ignored": Fault(
        text="the coordinates behind the index are taken as 0",
        address=_at_zero(lambda i, term, address: i in _behind_index(address)),
    ),
    "trailing-order-reversed": Fault(
        text="the coordinates behind the index are used in reverse order", address=_order_reversed(_behind_index)
    ),
    "innermost-coordinate-ignored": Fault(
        text="the first element of each output row is used for the whole row", address=_innermost_at_zero
    ),
    # batches: coordinates that the indices and the data share
    "batch-0-of-data": Fault(
        text="every batch uses the data of the first batch", address=_batch_0(data=True, indices=False)
    ),
    "batch-0-of-indices": Fault(
        text="every batch uses the indices of the first batch", address=_batch_0(data=False, indices=True)
    ),
    "batch-ignored": Fault(
        text="every batch uses the data and the indices of the first batch", address=_batch_0(data=True, indices=True)
    ),
    "batch-order-reversed": Fault(
        text="the batch coordinates of the data are used in reverse order", address=_batches_reversed
    ),
    # dimension counts
    "rank-above-4-leading-ignored": Fault(
        text="only the last four coordinates count, the others are taken as 0",
        address=_at_zero(lambda i, term, address: i < len(address.terms) - 4),
    ),
    "rank-above-4-trailing-ignored": Fault(
        text="only the first four coordinates count, the others are taken as 0",
        address=_at_zero(lambda i, term, address: i >= 4),
    ),
    "rank-above-4-zero": Fault(
        text="with more than four dimensions the output is zero",
        output=lambda bits, arrays: 0 * bits,
        concerns=_more_than_4_dimensions,
    ),
    "rank-8-first-ignored": Fault(
        text="the first of eight coordinates is taken as 0",
        address=_at_zero(lambda i, term, address: i == 0 and len(address.terms) == 8),
    ),
    # strides and sizes
    "strides-of-output": Fault(
        text="the input is read with the strides of the output", address=_strides_from(lambda address: address.loops)
    ),
    "strides-of-indices": Fault(
        text="the input is read with the strides of the indices",
        address=_strides_from(_index_sizes),
        concerns=lambda arrays: any(arrays.address.reads),
    ),
    "strides-column-major": Fault(text="the input is read column-major", address=_column_major),
    "strides-padded-to-4": Fault(
        text="rows of the input start at multiples of four elements", address=_strides_from(_rows_of_four)
    ),
    "strides-in-inverse-order": Fault(
        text="the order of the dimensions in memory is taken the other way round", address=_order_inverted
    ),
    "strides-of-0-packed": Fault(
        text="a dimension with the stride 0 is read with the stride of a packed tensor", address=_repeats_nothing
    ),
    "size-16-bits": Fault(text="sizes are cut to 16 bits", address=_sizes_cut, needs=_NEEDS_DIMENSION),
    "limit-of-position": Fault(
        text="a number is cut to 32 bits; the position that is computed from it is limited in place of the number",
        indices=lambda rows, data_type: rows & 0xFFFFFFFF,
        address=_limited_late,
        concerns=lambda arrays: _limited_late(arrays.address) != arrays.address,
    ),
    "constant-along-last": Fault(
        text="the second element is read at the stride of the last dimension, whatever its size",
        output=_along_last,
        concerns=_reads_constant,
    ),
    # the address
    "address-off-by-one": Fault(text="every address is one element too high", addresses=lambda a, arrays: a + 1),
    "address-16-bits": Fault(
        text="the address in elements is cut to 16 bits", addresses=lambda a, arrays: a & 0xFFFF, needs=_NEEDS_65536
    ),
    "address-16-bits-of-bytes": Fault(
        text="the address in bytes is cut to 16 bits", addresses=_bytes_cut, needs=_NEEDS_64K
    ),
    "address-at-word-start": Fault(
        text="the first element of a 4-byte word is used for every element in it", addresses=_at_word_start
    ),
    "address-first-element": Fault(text="every address is 0", addresses=lambda a, arrays: 0 * a),
    # equivalent: no difference on valid input
    "stride-0-for-size-1": Fault(
        text="a dimension of size 1 gets stride 0",
        address=_unbroadcast,
        equivalent="the only position in such a dimension is 0",
    ),
}
