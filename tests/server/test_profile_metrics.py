"""How many prompts run by which rule, as metrics tell it."""

from prometheus_client import CollectorRegistry
from transformers import LlamaConfig
from vllm.sampling_params import SamplingParams

from positional.rule import ModelRope, Rule
from server.default_profile import DefaultProfile, RunningPrompt
from server.profile_metrics import ProfileCollector
from server.request_record import PromptRecord
from server.rope_choice import ServedRope

MODEL = ModelRope.from_config(
    LlamaConfig(
        head_dim=32,
        max_position_embeddings=2048,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4},
    )
)
SCALED = MODEL.rule(scaling={"rope_type": "yarn", "factor": 4.0})


def _prompt(wish: Rule | None = None) -> RunningPrompt:
    return RunningPrompt({"prompt_token_ids": [1]}, SamplingParams(), wish, True, PromptRecord(0, 1))


def test_running_prompts_are_told_apart_by_the_default_of_now_and_rules_of_their_own() -> None:
    profiles = DefaultProfile(ServedRope(MODEL, None, MODEL.native, MODEL.native), 2048)
    registry = CollectorRegistry()
    registry.register(ProfileCollector(profiles))

    def shown() -> tuple[float | None, ...]:
        names = ("default", "earlier", "own")
        running = (registry.get_sample_value("ropeway_running_requests", {"profile": n}) for n in names)
        return (*running, registry.get_sample_value("ropeway_default_generation"))

    assert shown() == (0, 0, 0, 0)
    first, own = profiles.enter(_prompt()), profiles.enter(_prompt(SCALED))
    assert shown() == (1, 0, 1, 0)
    profiles.change(SCALED)
    second = profiles.enter(_prompt())
    assert shown() == (1, 1, 1, 1)
    for prompt in (first, second, own):
        profiles.leave(prompt)
    assert shown() == (0, 0, 0, 1)
