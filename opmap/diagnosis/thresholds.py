"""The thresholds of a diagnosis: how many answers must agree before opmap tells a sentence.

Each threshold says how often such a sentence is false by chance.

If each of n answers agrees with a false claim with the chance p, all of them do so with p ** n. So n agreeing answers
leave one chance in twenty that a claim is wrong for this share of such cases, or more: 2 answers 78 %, 6 answers 39 %,
20 answers 14 %, 100 answers 3 %. Limits that only end a search, or choose what it looks at first, stand where they are
used.
"""

from __future__ import annotations

# --- a relation ---

MARGIN = 12.0
"""The information, in bits, that wrong elements must hold beside the logarithm of the number of relations tried. One of
these relations fits elements by chance in 1 of 2 ** 12 = 4,096 outputs."""

LEAST = 8.0
"""The information, in bits, for the relation that needs the least of it: the last element is a copy. By chance: 1 in
256."""

NEARLY_ALL = 0.95
"""The share of the wrong elements that a relation must explain, and of the cases in which it must. The others may be
another bug's. A second bug in more cases than that is not covered by the title of the first."""

FEWEST_ELEMENTS = 20
"""The fewest wrong elements that propose a fault for sure. A fault that gives a wrong element by chance each second
time gives 20 of them once in a million outputs; of 200 faults, one does so once in 5,000."""

FEWEST_CALLS = 10
"""The fewest calls from which a fault of a session is read. Such a fault gives right and wrong outputs in the order of
the calls: ten of them in another order agree once in 2 ** 10 = 1,024 runs."""

# --- a condition ---

FEWEST = 10
"""The fewest failing cases for a condition, and for a relation without one. A comparison that holds for half of all
cases holds for ten by chance once in 1,024 times. Longer conditions must save more bits than they take
(`Condition.is_by_chance`)."""

FEWEST_KNOWN = 3
"""The fewest failing cases of a run that make a condition sure. All questions start near them, and share what these
share by chance: a comparison that holds for a tenth of all cases holds for three once in 1,000 times."""

KEPT, MOST_OF_WORD = 2, 6
"""The number of cases that break one comparison alone, can show the fault, and pass, before the comparison counts as
tested; and the number of cases of an excluded operator or data type from which on no more are asked. The fault is
hidden by two if it shows in fewer than 78 % of such cases, by six if in fewer than 39 %: fresh cases come after
them."""

FEWEST_FRESH, MOST_FRESH = 20, 100
"""The fewest fresh cases, which were not used to find a condition, that must agree with it; and the most that are
asked. A condition that is wrong for 14 % of such cases passes 20 of them once in twenty times; after 100 of them, one
that is wrong for 3 %."""

ENOUGH = 200
"""The number of questions that make a condition sure although some were left to ask: of so many, one would have
contradicted a condition that is wrong for 1.5 % of them."""

TWINS, FEWER_TWINS, FEW_DOUBTED = 8, 3, 5
"""How often a passing case is asked again with other values; and how often if there are more than FEW_DOUBTED of them.
A fault that every second choice of values shows stays hidden in eight of them once in 256 times, in three once in 8."""

# --- stability ---

ALONE, MORE_ALONE = 3, 5
"""How often a case is run alone, and how often more if it fails. A race that fails in one run of three fails eight of
eight times once in 3 ** 8 = 6,561."""

FEWEST_OF_PERIOD = 3
"""The fewest failures from which a period is read: two equal distances. In a row of 300 runs, they are equal by chance
once in 300."""

AFTER, AGAIN_AFTER = 2, 6
"""How often a case must fail after some earlier ones; and how often more after the fewest of them: as often as
alone."""

# --- a side ---

SIDE_RUNS = 5
"""How often each side runs the case. A race that fails in every second run is right five times by chance once in 2 ** 5
= 32; the case must fail five times without the change too, so both happen once in 1,024."""
