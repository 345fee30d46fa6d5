"""The flags that docs/operate.md describes are those that the commands take."""

import argparse
import re

from server import command, plan_options
from server.flags import parser
from tests.support.operate import rows


def flags_of(made: argparse.ArgumentParser) -> set[str]:
    flags = {flag for action in made._actions for flag in action.option_strings if flag.startswith("--")}
    return flags - {"--help"}


def test_every_flag_of_the_server_is_described_with_its_default() -> None:
    (ours,) = [group for group in parser()._action_groups if group.title == "Ropeway"]
    actions = {action.option_strings[0]: action for action in ours._group_actions}
    table = [cells for cells in rows("Flags of `ropeway serve`") if cells[0].startswith("`--")]
    described = {flag.strip("`"): default for flag, default, _ in table}
    assert described.keys() == actions.keys()
    for flag, default in described.items():
        convert = actions[flag].type
        if default.startswith("`") and callable(convert) and not default.startswith("`ROPEWAY"):
            assert convert(default.strip("`")) == actions[flag].default, flag
        elif default == "off":
            assert actions[flag].default is False, flag


def test_every_flag_of_the_other_commands_is_named() -> None:
    (commands,) = [
        action for action in command.build_parser()._actions if isinstance(action, argparse._SubParsersAction)
    ]
    made = {f"ropeway {name}": flags_of(found) for name, found in commands.choices.items() if name != "serve"}
    made["ropeway plan"] = flags_of(plan_options.parser())
    named = {
        cells[0].strip("`"): set(re.findall(r"`(--[a-z-]+)`", cells[1]))
        for cells in rows("Flags of `ropeway serve`")
        if cells[0].startswith("`ropeway")
    }
    assert named == made
