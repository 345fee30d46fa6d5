"""The oracle: QGPM's equations written token by token on transformers models, sharing no code with ours."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
    AutoConfig,
    AutoModelForCausalLM,
    DynamicCache,
)
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

Map = Literal["broad", "sharp"]
Span = tuple[int, int]


class Parameters(Protocol):
    """The hyperparameters of the paper's appendix C; `positional.qgpm.QGPMConfig` has them."""

    @property
    def k_broad(self) -> float: ...
    @property
    def t_broad(self) -> float: ...
    @property
    def k_sharp(self) -> float: ...
    @property
    def t_sharp(self) -> float: ...
    @property
    def score_low(self) -> float: ...
    @property
    def stride_floor(self) -> float: ...
    @property
    def anchor_ratio(self) -> float: ...
    @property
    def gate_width(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Modulated:
    """The positions of one prompt: equations 3 and 6 to 8 in float64.

    `relevance`: z per sentence (higher is more relevant, ties keep document order); `spans`: token
    [start, end) per sentence; `num_tokens`: L, the tokens of the prompt without a continued prefix.
    """

    relevance: Sequence[float]
    spans: Sequence[Span]
    num_tokens: int
    config: Parameters

    def scores(self, name: Map) -> list[float]:
        """Equation 6, one score per sentence, before the protected prefix is set to 1."""
        config = self.config
        k, t = (config.k_broad, config.t_broad) if name == "broad" else (config.k_sharp, config.t_sharp)
        order = sorted(range(len(self.relevance)), key=lambda i: (-self.relevance[i], i))
        raw = [0.0] * len(order)
        for rank, sentence in enumerate(order):
            raw[sentence] = _sigmoid((k - 0.5 - rank) / t) if t > 0 else float(rank < k)
        low, high = min(raw), max(raw)
        if high == low:
            return [1.0] * len(raw)
        return [config.score_low + (1 - config.score_low) * (f - low) / (high - low) for f in raw]

    def token_scores(self, name: Map, count: int) -> list[float]:
        """s(j) of `count` tokens: the sentence's score; 1 outside the context and in the protected prefix."""
        result = [1.0] * count
        protected = True
        for (start, end), score in sorted(zip(self.spans, self.scores(name), strict=True)):
            protected = protected and score < (1 + self.config.score_low) / 2
            if not protected:
                result[start:end] = [score] * (end - start)
        return result

    def positions(self, name: Map, count: int, frequencies: torch.Tensor) -> torch.Tensor:
        """Equations 7 and 8: float64 [count, planes]; tokens beyond the prompt advance in unit steps."""
        boundary = _boundary_plane(frequencies, self.config.anchor_ratio * self.num_tokens)
        planes = torch.arange(len(frequencies), dtype=torch.float64)
        gate = torch.sigmoid((planes - boundary) / self.config.gate_width)
        score = torch.tensor(self.token_scores(name, count), dtype=torch.float64)[:, None]
        stride = (score + (1 - score) * gate).clamp_min(self.config.stride_floor)
        stride[0] = 0.0
        return stride.cumsum(dim=0)


@dataclass(frozen=True, slots=True)
class GreedyToken:
    """One step of greedy decoding; `margin`: its log-probability minus that of the runner-up."""

    token: int
    logprob: float
    runner_up: int
    margin: float


class Reference:
    """A checkpoint run by transformers in float32 on the CPU, one prompt at a time."""

    def __init__(
        self,
        path: str | Path,
        rope_parameters: Mapping[str, Any] | None = None,
        sliding_window: int | None = None,
    ) -> None:
        """`rope_parameters`, `sliding_window`: a rule and a window in place of the checkpoint's own."""
        AttentionInterface.register("recording", _recording_attention)
        AttentionMaskInterface.register("recording", sdpa_mask)
        config = AutoConfig.from_pretrained(path)
        if rope_parameters is not None:
            config.rope_parameters = dict(rope_parameters)
        if sliding_window is not None:
            config.sliding_window = sliding_window
        self._model: Any = AutoModelForCausalLM.from_pretrained(
            path, config=config, dtype=torch.float32, attn_implementation="recording"
        ).eval()
        self._config = self._model.config
        self._modulated: Modulated | None = None
        self._start = 0
        self._rows: dict[Map, tuple[torch.Tensor, torch.Tensor]] = {}
        for index, layer in enumerate(self._model.model.layers):
            layer.self_attn.register_forward_pre_hook(self._rotation(index), with_kwargs=True)

    def forced_logprobs(
        self, prompt_ids: Sequence[int], forced_ids: Sequence[int], modulated: Modulated | None = None
    ) -> list[float]:
        """The log-probability of each forced token after the prompt and the forced tokens before it."""
        logits = self._forward([*prompt_ids, *forced_ids[:-1]], modulated, keep=len(forced_ids))
        chosen = torch.tensor(forced_ids)[:, None]
        return [float(value) for value in logits.log_softmax(-1).gather(1, chosen)[:, 0]]

    def greedy(
        self, prompt_ids: Sequence[int], length: int, modulated: Modulated | None = None
    ) -> list[GreedyToken]:
        """The `length` likeliest next tokens with their margins, so that a caller can excuse a near tie."""
        cache = DynamicCache(config=self._config)
        result: list[GreedyToken] = []
        ids, start = list(prompt_ids), 0
        while len(result) < length:
            logits = self._forward(ids, modulated, keep=1, start=start, cache=cache)
            best, second = logits[0].log_softmax(-1).topk(2).values.tolist()
            token, runner_up = logits[0].topk(2).indices.tolist()
            result.append(GreedyToken(token, best, runner_up, best - second))
            start += len(ids)
            ids = [token]
        return result

    def relevance(
        self,
        prompt_ids: Sequence[int],
        heads: Sequence[tuple[int, int]],
        query_rows: Sequence[int],
        spans: Sequence[Span],
        silent: Collection[int] = (),
    ) -> tuple[list[float], torch.Tensor]:
        """Equations 4 and 5 of a plain prefill: z per sentence, and the signals float64 [sentences, heads].

        `heads`: (layer, query head); `silent`: tokens without a signal. A sentence of silent tokens only
        gets its head's minimum; a head whose signals do not differ contributes 0.
        """
        attention = [layer.self_attn for layer in self._model.model.layers]
        for layer, _ in heads:
            attention[layer].recorded = None
        self._forward(prompt_ids, None, keep=1)
        rotated = {}
        for layer in {layer for layer, _ in heads}:
            query, key = attention[layer].recorded
            rotated[layer] = query[0], key[0]
            del attention[layer].recorded
        return heard_by(rotated, heads, query_rows, spans, silent)

    @torch.inference_mode()
    def _forward(
        self,
        ids: Sequence[int],
        modulated: Modulated | None,
        keep: int,
        start: int = 0,
        cache: DynamicCache | None = None,
    ) -> torch.Tensor:
        """Logits float32 [keep, vocabulary] of the last tokens; `start`: absolute index of the first id."""
        self._modulated, self._start = modulated, start
        self._rows.clear()
        output = self._model(
            torch.tensor([list(ids)]),
            past_key_values=cache,
            use_cache=cache is not None,
            logits_to_keep=keep,
        )
        logits: torch.Tensor = output.logits[0].float()
        return logits

    def _rotation(self, index: int) -> Callable[..., Any]:
        """A hook that gives layer `index` the rows of its map; windowed layers keep the standard ones."""
        name: Map = "broad" if index < self._config.num_hidden_layers // 2 else "sharp"

        def hook(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if self._modulated is None or self._windowed(index):
                return None
            if name not in self._rows:
                self._rows[name] = self._cos_sin(name, kwargs["position_embeddings"][0].shape[1])
            return args, {**kwargs, "position_embeddings": self._rows[name]}

        return hook

    def _windowed(self, index: int) -> bool:
        types = getattr(self._config, "layer_types", None)
        if types is not None:
            return bool(types[index] != "full_attention")
        return getattr(self._config, "sliding_window", None) is not None

    def _cos_sin(self, name: Map, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        assert self._modulated is not None
        rotary = self._model.model.rotary_emb
        # Gemma 3 keeps one set of frequencies per kind of layer; only full layers are modulated.
        prefix = "full_attention_" if hasattr(rotary, "full_attention_inv_freq") else ""
        frequencies = getattr(rotary, f"{prefix}inv_freq").double()
        factor = getattr(rotary, f"{prefix}attention_scaling")
        positions = self._modulated.positions(name, self._start + count, frequencies)[self._start :]
        angles = (positions * frequencies).remainder(2 * math.pi).repeat(1, 2)
        return (angles.cos() * factor).float()[None], (angles.sin() * factor).float()[None]


def _recording_attention(
    module: Any, query: torch.Tensor, key: torch.Tensor, *args: Any, **kwargs: Any
) -> Any:
    """Torch's own attention; a module with the attribute `recorded` keeps its rotated queries and keys."""
    if hasattr(module, "recorded"):
        module.recorded = (query, key)
    return sdpa_attention_forward(module, query, key, *args, **kwargs)


def heard_by(
    rotated: Mapping[int, tuple[torch.Tensor, torch.Tensor]],
    heads: Sequence[tuple[int, int]],
    query_rows: Sequence[int],
    spans: Sequence[Span],
    silent: Collection[int],
) -> tuple[list[float], torch.Tensor]:
    """As `Reference.relevance`, of the layers' rotated queries and keys [heads, tokens, width]."""
    columns = []
    for layer, head in heads:
        query, key = rotated[layer]
        group = query.shape[0] // key.shape[0]
        logits = query[head, list(query_rows)] @ key[head // group].T / math.sqrt(query.shape[-1])
        columns.append(_sentence_signals(logits.max(dim=0).values.tolist(), spans, silent))
    signals = torch.tensor(columns, dtype=torch.float64).T
    deviation = signals.std(dim=0, correction=0)
    standard = (signals - signals.mean(dim=0)) / deviation
    standard = torch.where(signals.amax(dim=0) == signals.amin(dim=0), 0.0, standard)
    return standard.mean(dim=1).tolist(), signals


def _sentence_signals(tokens: Sequence[float], spans: Sequence[Span], silent: Collection[int]) -> list[float]:
    heard = [[tokens[j] for j in range(start, end) if j not in silent] for start, end in spans]
    strongest = [max(values) for values in heard if values]
    floor = min(strongest, default=0.0)
    return [max(values, default=floor) for values in heard]


def _boundary_plane(frequencies: torch.Tensor, anchor_length: float) -> float:
    """Equation 3 through the planes' real wavelengths: where their logarithm first equals ln L_a."""
    wave = [math.log(2 * math.pi / float(frequency)) for frequency in frequencies]
    target = math.log(anchor_length)
    steps = range(len(wave) - 1)
    crossed = [m for m in steps if (wave[m] - target) * (wave[m + 1] - target) <= 0]
    outside = 0 if target < wave[0] else steps[-1]
    m = crossed[0] if crossed else outside
    return m + (target - wave[m]) / (wave[m + 1] - wave[m])


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))
