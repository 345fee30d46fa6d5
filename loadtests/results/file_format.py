"""What the files of measurements have in common, as the report reads them."""

from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict

Setting = Mapping[str, Any]
"""How a run went, by the name of what was set."""

ONLY_WHAT_IS_READ = ConfigDict(extra="ignore")
