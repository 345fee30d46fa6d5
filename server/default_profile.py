"""The server's default rule of RoPE, its generations, and the running prompts that go by them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakSet

from vllm.sampling_params import SamplingParams

from cache.extra_args import profile_of
from positional.profile import Profile
from server.request_record import PromptRecord
from server.request_rope import prompt_tokens, with_rope
from server.rope_choice import AutoRule, ServedRope, Wish

OWN = "own"


@dataclass(slots=True, eq=False, weakref_slot=True)
class RunningPrompt:
    """A prompt between the door and its end, and the rule that its answer goes by.

    `asked`: the caller's sampling parameters. `wish`: the rule that it asked for, None for the server's
    default. `parameters`: `asked` under that rule, as the next inner request is to have them. `generation`:
    that of the default, None under a wish of its own. `started`: its answer went to the engine.
    """

    prompt: Mapping[str, Any]
    asked: SamplingParams
    wish: Wish | None
    max_tokens_given: bool | None
    record: PromptRecord
    parameters: SamplingParams = field(init=False)
    generation: int | None = field(init=False)
    started: bool = field(init=False, default=False)


class DefaultProfile:
    """What requests without a rule of their own go by, from one change to the next.

    `served` is None for a model none of whose rules can be replaced.
    """

    def __init__(self, served: ServedRope | None, max_model_len: int) -> None:
        self.served = served
        self.generation = 0
        self._start = None if served is None else served.default
        self.max_model_len = max_model_len
        # Weakly: a caller may drop what was never started.
        self._running: WeakSet[RunningPrompt] = WeakSet()

    def enter(self, running: RunningPrompt) -> RunningPrompt:
        """Place a prompt under its rule and count it as running; raises RequestError."""
        self.follow(running)
        self._running.add(running)
        return running

    def leave(self, running: RunningPrompt) -> None:
        """Stop counting a prompt; harmless when repeated."""
        self._running.discard(running)

    def behind(self) -> list[RunningPrompt]:
        """Running prompts that go by an earlier default."""
        return [r for r in self._running if r.wish is None and r.generation != self.generation]

    def running(self) -> Counter[int | None]:
        """How many running prompts go by which generation of the default; None: by a rule of their own."""
        return Counter(running.generation for running in self._running)

    def follow(self, running: RunningPrompt) -> None:
        """Place a prompt under its own wish or the default of now.

        Raises RequestError where that does not cover the prompt, which then stays as it is.
        """
        running.parameters = self.placed(
            running.prompt, running.asked, running.wish, running.max_tokens_given
        )
        running.generation = self.generation if running.wish is None else None
        running.record.profile = {
            "digest": self._digest(running.parameters),
            "generation": running.generation,
        }

    def placed(
        self,
        prompt: Mapping[str, Any],
        parameters: SamplingParams,
        wish: Wish | None = None,
        max_tokens_given: bool | None = None,
    ) -> SamplingParams:
        """Parameters under a rule, by default the server's; raises RequestError."""
        served = self.served
        if served is None:
            return parameters
        wish = wish or served.default
        return with_rope(parameters, served, wish, prompt, self.max_model_len, max_tokens_given)

    def room(self, running: RunningPrompt) -> int:
        """Tokens that the server's own limit leaves a prompt's answer."""
        return self.max_model_len - prompt_tokens(running.prompt)

    def change(self, wish: Wish | None) -> None:
        """Let prompts that come from now on go by another rule; None: the one that the start set."""
        if self.served is None or self._start is None:
            raise ValueError("a model of several rules of its own has no default to change")
        self.served = replace(self.served, default=wish or self._start)
        self.generation += 1

    def describe(self) -> dict[str, Any]:
        """JSON: the rule of the default (both of the policy `auto`), and how many prompts run on which."""
        served = self.served
        counts = {OWN if n is None else str(n): count for n, count in self.running().items()}
        described: dict[str, Any]
        match None if served is None else served.default:
            case None:
                described = {"policy": None, "profile": None}
            case AutoRule(native, scaled):
                rules = {"native": native.describe(), "scaled": scaled.describe()}
                described = {"policy": "auto", "profile": rules}
            case rule:
                described = {"policy": None, "profile": rule.describe()}
        return {**described, "generation": self.generation, "running": dict(sorted(counts.items()))}

    def profile(self, parameters: SamplingParams) -> Profile | None:
        """What a placed request rotates by; None for a model none of whose rules can be replaced."""
        if self.served is None:
            return None
        return profile_of(parameters.extra_args) or self.served.loaded_profile

    def _digest(self, parameters: SamplingParams) -> str | None:
        profile = self.profile(parameters)
        return None if profile is None else profile.digest.hex()
