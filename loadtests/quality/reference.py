"""Answers by STRING, Self-Extend and Ms-PoE, which no server here can give: a transformers model, warped.

The model computes everything but its attention; that sees unrotated queries and keys and turns them as the
method says (`positional.warps`). Nothing is kept between two prompts.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Self

import torch
from transformers import AttentionInterface, AutoModelForCausalLM, AutoTokenizer, DynamicCache

from loadtests.quality.warping import ATTENTION, Method, UnwarpableError, Warping, attend
from positional.profile import ProfileError
from positional.rule import ModelRope
from server.likelihood import Gold, Message

# Enough for a wrong pairing or an unrotated layer to change logits by much more than the noise of bfloat16.
PROBE_TOKENS, PROBE_CHANGE = 64, 0.05


@dataclass(frozen=True, slots=True)
class Answer:
    """What a method makes of one prompt.

    `logprob`: of a gold answer, forced, in nats, summed over its tokens, the mean over several; `text`: the
    greedy answer.
    """

    logprob: float
    text: str
    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class Reference:
    """A model and its tokenizer; `rope` says by what its keys are rotated."""

    model: Any
    tokenizer: Any
    rope: ModelRope

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Loads a model of one kind of layer, full attention with RoPE of paired halves, as Llama's is.

        In float32 on a CPU, in its own dtype on a GPU. Raises UnwarpableError for other models.
        """
        AttentionInterface.register(ATTENTION, attend)
        on_gpu = torch.cuda.is_available()
        model = AutoModelForCausalLM.from_pretrained(
            folder, attn_implementation=ATTENTION, dtype="auto" if on_gpu else torch.float32
        )
        model = model.to("cuda" if on_gpu else "cpu").eval()
        try:
            rope = ModelRope.from_config(model.config.get_text_config())
        except ProfileError as error:
            raise UnwarpableError(f"The model cannot be warped: {error}") from error
        reference = cls(model, AutoTokenizer.from_pretrained(folder), rope)
        reference._check()
        return reference

    @property
    def dtype(self) -> str:
        """What the model computes in; its attention is computed in float32."""
        return str(self.model.dtype).removeprefix("torch.")

    @torch.inference_mode()
    def observe(
        self,
        messages: Sequence[Message],
        golds: Sequence[Gold],
        method: Method,
        max_tokens: int = 32,
    ) -> Answer:
        """How likely the answers are after a chat's messages, and what is answered greedily instead.

        `golds`: of `server.likelihood.golds`, at least one. Raises WarpError for a prompt that is too short
        or too long for the method.
        """
        ids = self._prompt_ids(messages)
        warping = self._warping(
            method, len(ids), len(ids) + max(max_tokens, *(len(gold.ids) for gold in golds))
        )
        cache = DynamicCache(config=self.model.config)
        first = self._logits(ids, warping, cache, keep=1)
        logprobs = [float(self._forced(first, gold, warping, deepcopy(cache)).sum()) for gold in golds]
        return Answer(fmean(logprobs), self._greedy(first, max_tokens, warping, cache), len(ids))

    def _forced(self, first: torch.Tensor, gold: Gold, warping: Warping, cache: DynamicCache) -> torch.Tensor:
        """float [answer]: the log-probability of each token behind the lead-in."""
        logits = first
        if before := gold.ids[:-1]:
            logits = torch.cat((first, self._logits(before, warping, cache, keep=len(before))))
        chosen = torch.tensor(gold.ids, device=logits.device)[:, None]
        return logits.log_softmax(-1).gather(1, chosen)[gold.lead :, 0]

    def _greedy(self, logits: torch.Tensor, max_tokens: int, warping: Warping, cache: DynamicCache) -> str:
        tokens: list[int] = []
        while (token := int(logits[-1].argmax())) not in self._ends():
            tokens.append(token)
            if len(tokens) == max_tokens:
                break
            logits = self._logits([token], warping, cache, keep=1)
        return str(self.tokenizer.decode(tokens, skip_special_tokens=True))

    def _ends(self) -> set[int]:
        named = self.model.generation_config.eos_token_id
        return {self.tokenizer.eos_token_id, *(named if isinstance(named, list) else [named])}

    def _prompt_ids(self, messages: Sequence[Message]) -> list[int]:
        text = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        # The template has written the special tokens already.
        return list(self.tokenizer(text, add_special_tokens=False).input_ids)

    def _warping(self, method: Method, length: int, whole: int) -> Warping:
        """Of a prompt of `length` tokens, `whole` with its answer."""
        profile = replace(self.rope.own.profile(whole), attention_factor=1.0)
        return Warping(method, profile, self.rope.native.window, length)

    def _logits(
        self, ids: Sequence[int], warping: Warping, cache: DynamicCache | None, keep: int
    ) -> torch.Tensor:
        """float32 [keep, vocabulary] of the last of `ids`, which follow what the cache holds."""
        output = self.model(
            input_ids=torch.tensor([list(ids)], device=self.model.device),
            # At position 0 the model itself rotates nothing.
            position_ids=torch.zeros(1, len(ids), dtype=torch.long, device=self.model.device),
            past_key_values=cache,
            use_cache=cache is not None,
            logits_to_keep=keep,
            warping=warping,
        )
        logits: torch.Tensor = output.logits[0].float()
        return logits

    @torch.inference_mode()
    def _check(self) -> None:
        """Plain attention of ours must be the model's own: measured, as configurations differ in spelling."""
        generator = torch.Generator().manual_seed(0)
        ids = torch.randint(self.model.config.vocab_size, (PROBE_TOKENS,), generator=generator)
        ours = self._logits(ids.tolist(), self._warping("plain", len(ids), len(ids)), None, keep=1)
        self.model.set_attn_implementation("sdpa")
        own = self.model(input_ids=ids[None].to(self.model.device), logits_to_keep=1).logits[0].float()
        self.model.set_attn_implementation(ATTENTION)
        if not (ours - own).norm() < PROBE_CHANGE * own.norm():
            raise UnwarpableError(
                "The model cannot be warped: plain RoPE of paired halves in every layer is not what it does."
            )
