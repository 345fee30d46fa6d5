"""The worker's part of a score pass: keep the query rows, read the relevance when the prompt is done."""

from dataclasses import dataclass, field

import numpy as np
import torch

from cache.extra_args import ScoreTask
from positional.relevance import head_signal, sentence_signal


@dataclass(slots=True)
class ScorePass:
    """One running score pass. `queries` [rows, width] by column of the head list, filled chunk by chunk."""

    task: ScoreTask
    queries: dict[int, torch.Tensor] = field(default_factory=dict)

    def rows_between(self, first: int, last: int) -> slice:
        """Which query rows are tokens [first, last)."""
        edges = np.searchsorted(self.task.query_rows, (first, last))
        return slice(int(edges[0]), int(edges[1]))

    def keep(self, column: int, rows: slice, queries: torch.Tensor) -> None:
        """Keep rotated queries [rows, width] of the query rows `rows` of one head."""
        if column not in self.queries:
            size = (len(self.task.query_rows), queries.shape[1])
            self.queries[column] = torch.zeros(size, dtype=queries.dtype, device=queries.device)
        self.queries[column][rows] = queries

    @property
    def tokens(self) -> range:
        """Context tokens whose keys are read: from the first sentence's start to the last one's end."""
        return range(int(self.task.spans[0, 0]), int(self.task.spans[-1, 1]))

    def signal(self, column: int, keys: torch.Tensor) -> torch.Tensor:
        """Eq. 4 of one head, then its maximum per sentence: float32 [sentences].

        `keys` [len(tokens), width] are the rotated keys of `tokens`.
        """
        start = self.tokens.start
        logits = head_signal(self.queries[column].float(), keys.float())
        spans = torch.from_numpy(self.task.spans.astype(np.int64) - start)
        silent = torch.zeros(len(logits), dtype=torch.bool)
        silent[torch.from_numpy(self.task.silent.astype(np.int64) - start)] = True
        return sentence_signal(logits.cpu(), spans, silent)
