"""From the failures of a run to their causes, by four questions.

- What happened to the outputs? `relations` looks among the faults of the table, `models` (faults with a number in them)
  and `relations_outputs` (a whole output that is moved, repeated, lost or altered). A `relation` is the answer.
- Which cases fail? `conditions` learns a condition, `questions` draws new cases near its border, `asking` is the loop
  of the two, and `known_answers` keeps the answers.
- How reliably does it fail, and what must run before? `stability`.
- What is the smallest case, and whose fault is it? `case` has the moves that make a case smaller, `smaller_failure`
  makes them, `sides` asks the other sides.

`causes` groups the failed cases, `diagnose` asks the questions for each group, `diagnosis` joins groups that are one
cause. `thresholds` has the number of agreeing answers that each statement needs.
"""
