"""What the parts of a case id mean, for `opmap validate --help-all`. Light to import: tests hold the text against the code."""

from __future__ import annotations

EXAMPLE = "gather/float32/d3.axis1.k2/int64.dups.init/special.60f52e"
"""A case of the tier `smoke` whose id has every part."""

MEANING = f"""\
What a case id says, by the example {EXAMPLE}:

  gather         the operator
  float32        the type of the data
  d3.axis1.k2    DimensionCount 3 of the data, then the operator's numbers: axis is Axis,
                 k is IndexDimensions, r is InputDimensionCount, q is IndicesDimensionCount,
                 b is BatchDimensionCount or BlockSize, order is Order, n is the number of
                 tensors, mode is PaddingMode, offset is Offset, from and to are
                 DiagonalFillBegin and DiagonalFillEnd
  int64.dups     the type of the indices and their pattern: identity (0, 1, ...),
                 reverse (..., 1, 0), asc (ascending), random, one (one element, repeated),
                 dups (each index appears twice in a row), bounds (the limits only),
                 neg (negative), mix (negative and others), far (beyond the elements)
  .init          where the indices come from: init (an initializer), node (the output of a
                 node); without this part they are an input of the graph
  special        the pattern of the data: addr (each value is unique, so that a wrong one
                 shows where it was read; addr0, addr1, ... if the type has too few values),
                 special (NaN payloads, -0, denormals and the like)
  60f52e         a digest of the descriptor with all its sizes, and of the patterns

gather/example.1 is the first example on the page of GATHER. A last part, such as
own-queue in gather/example.1/own-queue, names the variant in which the case is run (opmap manual variants
lists them).
"""
