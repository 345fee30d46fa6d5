"""Reads what every attention head of a model sees: a plain forward in transformers, tapped at its attention.

Nothing here depends on the serving engine. Text is located by the code that serves requests.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from transformers import AttentionInterface, AttentionMaskInterface, AutoModelForCausalLM, AutoTokenizer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from cache.head_profile import QUERY_TAIL
from positional import relevance
from server.locate import Located, LocateError, Source, locate
from server.offsets import OffsetsError, TokenizedPrompt, tokenized
from server.plain_model import UncoveredLayerError
from server.samples import Sample

ATTENTION = "ropeway_calibration"
# A shift at which every rotated key differs by far more than rounding.
PROBE_TOKEN, PROBE_SHIFT, PROBE_CHANGE = 1, 1000, 0.1
HeadKey = tuple[int, int]
LayerReader = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class HeadReaderError(Exception):
    """The model cannot be read; the message says why."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What all candidate heads saw in one sample: signals float64[sentences, heads]; evidence sentences."""

    signals: torch.Tensor
    evidence: tuple[int, ...]


class AttentionTap:
    """transformers' attention function, which also hands each layer's queries and keys to a reader."""

    def __init__(self) -> None:
        self.windowed: set[int] = set()
        self._read: LayerReader | None = None
        self._found: dict[int, torch.Tensor] = {}

    def __call__(
        self,
        module: torch.nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, None]:
        """Attends as SDPA does; query and key [1, heads, tokens, width] are normed and rotated."""
        if self._read is not None:
            layer = int(module.layer_idx)  # type: ignore[arg-type]
            if kwargs.get("sliding_window") is not None:
                self.windowed.add(layer)
            self._found[layer] = self._read(query[0], key[0])
        output, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
        return output, None

    def forward(
        self, model: Any, token_ids: torch.Tensor, read: LayerReader, first_position: int = 0
    ) -> dict[int, torch.Tensor]:
        """One plain prefill of token_ids [tokens]; what `read` made of each layer."""
        positions = torch.arange(first_position, first_position + len(token_ids), device=token_ids.device)
        self._read, self._found = read, {}
        try:
            with torch.inference_mode():
                model(input_ids=token_ids[None], position_ids=positions[None], use_cache=False)
            return self._found
        finally:
            self._read, self._found = None, {}


@dataclass(frozen=True, slots=True)
class Reader:
    """A model whose heads can be read; `candidates` are the heads of its full-attention rotary layers."""

    model: Any
    tokenizer: Any
    tap: AttentionTap
    candidates: tuple[HeadKey, ...]

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Loads the model: in float32 on a CPU, in its own dtype on a GPU. Raises HeadReaderError."""
        tap = AttentionTap()
        AttentionInterface.register(ATTENTION, tap)
        AttentionMaskInterface.register(ATTENTION, sdpa_mask)
        on_gpu = torch.cuda.is_available()
        try:
            model = AutoModelForCausalLM.from_pretrained(
                folder, attn_implementation=ATTENTION, dtype="auto" if on_gpu else torch.float32
            ).get_decoder()
        except UncoveredLayerError as error:
            raise HeadReaderError(f"{folder} cannot be calibrated: {error}.") from error
        model = model.to("cuda" if on_gpu else "cpu").eval()
        candidates = _candidates(model, tap)
        if not candidates:
            raise HeadReaderError(
                f"{folder} has no full-attention layer with rotary positions to choose from."
            )
        return cls(model, AutoTokenizer.from_pretrained(folder), tap, candidates)

    @property
    def window(self) -> int:
        """The longest prompt that the model was made for, in tokens."""
        return int(self.model.config.get_text_config().max_position_embeddings)

    @property
    def dtype(self) -> str:
        """What the model computes in."""
        return str(self.model.dtype).removeprefix("torch.")

    def count_tokens(self, text: str) -> int:
        """The tokens of a text that stands alone."""
        return len(self.tokenizer(text, add_special_tokens=False).input_ids)

    def observe(self, sample: Sample) -> Observation:
        """The sentence signal (eq. 4) of every candidate head, with the query rows of a served request.

        Raises HeadReaderError where the tokenizer loses the text.
        """
        try:
            prompt, source = self._prompt(sample)
            located = locate(prompt, source, sample.question, sample.context, QUERY_TAIL)
        except (LocateError, OffsetsError) as error:
            raise HeadReaderError(f"A sample does not come back from the tokenizer: {error}") from error
        device = self.model.device
        rows = torch.tensor(located.query_rows, device=device)
        token_ids = torch.tensor(prompt.token_ids, device=device)
        layers = self.tap.forward(self.model, token_ids, lambda query, key: head_signals(query[:, rows], key))
        tokens = torch.stack([layers[layer][head] for layer, head in self.candidates])
        return Observation(
            _sentence_signals(tokens.double().cpu(), located), _evidence(prompt, located, sample)
        )

    def _prompt(self, sample: Sample) -> tuple[TokenizedPrompt, Source]:
        messages = [{"role": role, "content": content} for role, content in sample.messages]
        if self.tokenizer.chat_template is None:
            text, source = f"{sample.messages[-1][1]}\nAnswer:", Source(messages=None)
        else:
            text = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
            source = Source(messages=sample.messages)
        # A chat template writes the special tokens itself.
        ids = self.tokenizer(text, add_special_tokens=source.messages is None).input_ids
        return tokenized(self.tokenizer, ids, text), source


def head_signals(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """float32[heads, tokens]: eq. 4 from query [heads, rows, width] and key [kv heads, tokens, width].

    Query head h reads key head h // (heads / kv heads).
    """
    group = len(query) // len(key)
    return torch.stack(
        [relevance.head_signal(rows.float(), key[head // group].float()) for head, rows in enumerate(query)]
    )


def _candidates(model: Any, tap: AttentionTap) -> tuple[HeadKey, ...]:
    """Heads of layers that attend without a window and whose keys follow a shift of all positions.

    Measured, since configs state neither in one way for all architectures.
    """
    # A token that is alone reads itself however its query is scaled, so no other layer's doing shows in keys.
    token_ids = torch.tensor([PROBE_TOKEN], device=model.device)
    near = tap.forward(model, token_ids, lambda query, key: key.float())
    far = tap.forward(model, token_ids, lambda query, key: key.float(), first_position=PROBE_SHIFT)
    rotary = {layer for layer, key in near.items() if (far[layer] - key).norm() > PROBE_CHANGE * key.norm()}
    heads = tap.forward(model, token_ids, lambda query, key: query)
    return tuple(
        (layer, head) for layer in sorted(rotary - tap.windowed) for head in range(len(heads[layer]))
    )


def _sentence_signals(tokens: torch.Tensor, located: Located) -> torch.Tensor:
    """[sentences, heads] from [heads, tokens]."""
    spans = torch.tensor([(sentence.start, sentence.end) for sentence in located.sentences])
    silent = torch.zeros(tokens.shape[1], dtype=torch.bool)
    silent[list(located.silent)] = True
    return torch.stack([relevance.sentence_signal(signal, spans, silent) for signal in tokens], 1)


def _evidence(prompt: TokenizedPrompt, located: Located, sample: Sample) -> tuple[int, ...]:
    """The sentences that hold the first character of an evidence text."""
    first = prompt.text.index(sample.context)
    starts = [first + sample.context.index(text) for text in sample.evidence]
    return tuple(
        index
        for index, sentence in enumerate(located.sentences)
        if any(sentence.start_char <= start < sentence.end_char for start in starts)
    )
