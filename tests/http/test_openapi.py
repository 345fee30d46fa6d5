"""Random bodies by the OpenAPI document. `python -m loadtests.fuzz` sends thousands, and asks stock too."""

from loadtests.fuzz.session import Session
from loadtests.fuzz.views import CHAT, COMPLETION, FIELDS, VIEWS
from loadtests.fuzz.violation import ACCEPTED
from server.admin_key import HEADER
from server.child import Server
from tests.http.servers import ADMIN_KEY, wait_until_idle
from tests.http.streams import change_profile

pytest_plugins = ("tests.http.fixtures",)

# All but the views whose bodies hold whatever vLLM's own part of the document allows.
OURS = [view for view in VIEWS if view.narrowed != "whole" or view.path not in (CHAT, COMPLETION)]


def test_random_bodies_are_answered_as_the_document_says(server: Server) -> None:
    session = Session(server, {HEADER: ADMIN_KEY}, seed=1)
    try:
        session.run(100, OURS, tell=lambda line: None)
    finally:
        change_profile(server, "finish")
    # vLLM reads its own fields with less care than the document promises: "1" is as good as 1.
    found = [
        each for each in session.found if each.violation.kind != ACCEPTED or each.violation.field in FIELDS
    ]
    assert not found
    answered = {view for view, statuses in session.statuses.items() if 200 in statuses}
    assert len(answered) > len(OURS) // 2
    wait_until_idle(server)
