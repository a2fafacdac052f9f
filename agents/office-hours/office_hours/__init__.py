"""Office hours: tools that write are called on weekdays alone, between two hours that the operator sets."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import BaseModel, Field

from agent_utilities import Call, Feature, Host, Panel, Refusal, Request, Table


class Hours(BaseModel):
    """What the operator sets, in a file, in the environment or on the command line."""

    office_opens: int = Field(default=8, ge=0, le=23, description="The hour from which tools that write are called.")
    office_closes: int = Field(default=18, ge=1, le=24, description="The hour from which they are not any more.")
    office_zone: ZoneInfo = Field(default=ZoneInfo("UTC"), description="The time zone of both, such as Europe/Vienna.")


class OfficeHours(Feature):
    """Refuses calls of tools that may write outside office hours, but for who has the right `office.always`."""

    name = "office-hours"
    settings = Hours()
    rights = ("office.always",)

    def attach(self, host: Host) -> None:
        super().attach(host)
        self.n_refused = 0
        host.offer(Panel, lambda: Panel("office-hours", "Office hours", self.look))

    def is_open(self) -> bool:
        now = datetime.now(self.settings.office_zone)
        return now.weekday() < 5 and self.settings.office_opens <= now.hour < self.settings.office_closes

    async def admit(self, request: Request, call: Call) -> None:
        decision = await self.host.decide("tool", request.verdict)
        places = decision.catalog.places_by_own_name.get(call.name, ())
        is_always = (grant := self.host.grant_of(request.caller)) is not None and "office.always" in grant.may
        if not self.is_open() and not is_always and not all(decision.catalog.entries[i].read_only for i in places):
            self.n_refused += 1
            raise Refusal(f"{call.name} may write, which is done {self.text()}; try again then")

    def text(self) -> str:
        hours = self.settings
        return f"on weekdays from {hours.office_opens} to {hours.office_closes} o'clock ({hours.office_zone.key})"

    def start_lines(self) -> Sequence[str]:
        return [f"tools that may write are called {self.text()}"]

    def register_metrics(self, registry: Any) -> None:
        from prometheus_client import Gauge

        gauge = Gauge("office_hours_refused", "Calls refused outside office hours.", registry=registry)
        gauge.set_function(lambda: self.n_refused)

    async def look(self, *_: object) -> dict[str, Any]:
        rows = [(self.text(), self.is_open(), self.n_refused)]
        return {"tables": {"office hours": Table(("hours", "open now", "calls refused"), rows)}}
