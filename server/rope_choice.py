"""Which RoPE rule a request takes, and what that leaves of its length."""

from dataclasses import dataclass

from positional.profile import Pairing, Profile
from positional.rule import ModelRope, Rule
from server.request_error import RequestError

NOTHING_TO_REPLACE = "this model's layers share no RoPE rule that could be replaced"


@dataclass(frozen=True, slots=True)
class AutoRule:
    """The policy `auto`: the model's unscaled rule for what fits its native window, else the declared one."""

    native: Rule
    scaled: Rule

    def paired(self, pairing: Pairing) -> "AutoRule":
        """The same rules on the same model of that pairing."""
        return AutoRule(self.native.paired(pairing), self.scaled.paired(pairing))


Wish = Rule | AutoRule


@dataclass(frozen=True, slots=True)
class ServedRope:
    """What a server offers: the model's rules, the declared scaled one, and the default of new requests.

    `loaded` is the rule of vLLM's own rotary modules; `loaded_profile` is what they rotate by.
    """

    model: ModelRope
    declared: Rule | None
    default: Wish
    loaded: Rule

    @property
    def loaded_profile(self) -> Profile:
        """The profile that adds nothing to a block's key."""
        return self.loaded.profile(1)

    def carried(self, choice: "Choice") -> Profile | None:
        """The profile that a request must bring, None where vLLM's modules hold it."""
        if choice.rule == self.loaded or choice.profile.digest == self.loaded_profile.digest:
            return None
        return choice.profile

    def paired(self, pairing: Pairing) -> "ServedRope":
        """The same on the same model of that pairing."""
        return ServedRope(
            self.model.paired(pairing),
            None if self.declared is None else self.declared.paired(pairing),
            self.default.paired(pairing),
            self.loaded.paired(pairing),
        )


@dataclass(frozen=True, slots=True)
class Choice:
    """The rule and the profile of one request, and the tokens that it may generate."""

    rule: Rule
    profile: Profile
    max_tokens: int


def choose(
    wish: Wish, prompt_tokens: int, max_tokens: int, max_tokens_given: bool, min_tokens: int = 0
) -> Choice:
    """The profile of a request of that many prompt tokens.

    `max_tokens` lies within the server's own limit. Where the caller gave it, the rule must cover prompt
    and answer; where not (`max_tokens_given`), the least answer, and the answer ends with the rule's
    window. Raises RequestError with the length and the limit.
    """
    least = max_tokens if max_tokens_given else max(min_tokens, 1)
    rule = _fitting(wish, prompt_tokens + least) if isinstance(wish, AutoRule) else wish
    if prompt_tokens + least > rule.window:
        raise _too_long(rule, prompt_tokens, max_tokens if max_tokens_given else None, min_tokens)
    allowed = min(max_tokens, rule.window - prompt_tokens)
    return Choice(rule, rule.profile(prompt_tokens + allowed), allowed)


def _fitting(policy: AutoRule, length: int) -> Rule:
    return policy.native if length <= policy.native.window else policy.scaled


def _too_long(rule: Rule, prompt_tokens: int, max_tokens: int | None, min_tokens: int) -> RequestError:
    limit = f"but its RoPE rule ({rule.rope_type}, base {rule.base:g}) covers {rule.window} tokens"
    named, asked = ("min_tokens", min_tokens) if max_tokens is None else ("max_tokens", max_tokens)
    if max_tokens is None and prompt_tokens >= rule.window:
        return RequestError(
            f"the prompt has {prompt_tokens} tokens and leaves none to answer, {limit}", "rope"
        )
    return RequestError(
        f"the request may reach {prompt_tokens + asked} tokens "
        f"({prompt_tokens} of the prompt and {named}={asked}), {limit}",
        "rope" if prompt_tokens >= rule.window else named,
    )
