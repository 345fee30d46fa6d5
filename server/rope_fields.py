"""The request field `rope`."""

from dataclasses import dataclass

from positional.profile import ProfileError
from positional.rule import ModelRope, Rule
from server.fields import FieldError
from server.rope_choice import AutoRule, Wish

_KNOWN = ("base", "scaling", "policy")


@dataclass(frozen=True, slots=True)
class RopeFields:
    """What a request said in `rope`: a rule, the policy `auto`, or nothing (None: the server's default)."""

    wish: Wish | None = None

    @classmethod
    def parse(cls, value: object, model: ModelRope, declared: Rule | None) -> "RopeFields":
        """Reads the field's JSON value; null (or an absent field) leaves the choice to the server.

        `base` alone keeps the model's own scaling, `scaling` alone its base. `declared`: the scaled rule of
        `auto`. Raises FieldError, naming the field, its limit and the value.
        """
        if value is None:
            return cls()
        if not isinstance(value, dict):
            raise FieldError("rope", "must be null or an object", value)
        for name, content in value.items():
            if name not in _KNOWN:
                raise FieldError(f"rope.{name}", f"is unknown; known are {', '.join(_KNOWN)}", content)
        base, scaling, policy = (value.get(name) for name in _KNOWN)
        if policy is not None:
            if base is not None or scaling is not None:
                raise FieldError("rope.policy", "cannot stand beside base or scaling", policy)
            return cls(_auto(policy, model, declared))
        if base is None and scaling is None:
            raise FieldError("rope", f"must hold one of {', '.join(_KNOWN)}", value)
        try:
            return cls(model.rule(base, scaling))
        except ProfileError as error:
            raise FieldError(f"rope.{error.field}", error.reason, error.value) from error


def _auto(policy: object, model: ModelRope, declared: Rule | None) -> AutoRule:
    if policy != "auto":
        raise FieldError("rope.policy", 'must be "auto"', policy)
    if declared is None:
        reason = (
            "needs a scaled rule: the model declares none, and the server was started without --rope-scaling"
        )
        raise FieldError("rope.policy", reason, policy)
    return AutoRule(model.native, declared)
