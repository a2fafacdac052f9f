"""A server with sixty tools about six things that share few words: for conversations that move between them."""

from __future__ import annotations

from typing import Any

from fastmcp import Context
from fastmcp.tools.base import Tool, ToolResult
from pydantic import BaseModel

from agent_utilities import create_mcp_server

TOPICS = {
    "git": {
        "log": "Show the latest commits of a repository",
        "diff": "Show what changed between two commits of a repository",
        "commit": "Record staged changes of a repository as a commit",
        "branch": "Create a branch in a repository",
        "checkout": "Switch a repository to another branch",
        "merge": "Merge one branch into another",
        "rebase": "Replay commits of a branch on top of another",
        "stash": "Put uncommitted changes of a repository aside",
        "tag": "Name a commit as a release",
        "blame": "Show which commit last changed each line",
    },
    "calendar": {
        "list_events": "List the meetings of a day in the calendar",
        "create_event": "Create a meeting in the calendar and invite people",
        "move_event": "Move a meeting in the calendar to another time",
        "cancel_event": "Cancel a meeting in the calendar",
        "find_slot": "Find a free slot for a meeting in several calendars",
        "book_room": "Book a room for a meeting",
        "add_guest": "Invite one more person to a meeting",
        "set_reminder": "Set a reminder before a meeting",
        "share_calendar": "Share a calendar with somebody",
        "time_zones": "Compare the time of several cities",
    },
    "mail": {
        "search_mail": "Search the inbox for letters by sender or subject",
        "read_mail": "Read one letter of the inbox",
        "send_mail": "Send a letter by mail",
        "reply_mail": "Answer a letter of the inbox",
        "forward_mail": "Forward a letter to somebody else",
        "archive_mail": "Archive letters of the inbox",
        "label_mail": "Put a label on letters of the inbox",
        "mute_thread": "Mute a thread of letters",
        "list_drafts": "List unfinished letters",
        "block_sender": "Block letters of a sender",
    },
    "weather": {
        "forecast": "Tell the weather forecast of a place for a week",
        "current_weather": "Tell the current weather of a place",
        "rain_radar": "Show rain on a radar picture",
        "storm_warnings": "List storm warnings of a region",
        "snow_depth": "Tell how deep snow lies on a mountain",
        "pollen": "Tell the pollen count of a place",
        "sunrise": "Tell sunrise and sunset of a place",
        "tides": "Tell high and low tide of a harbour",
        "wind": "Tell wind speed and direction of a place",
        "air_quality": "Tell the air quality of a place",
    },
    "music": {
        "play_song": "Play a song",
        "pause_music": "Pause the music",
        "skip_song": "Skip to the next song",
        "create_playlist": "Create a playlist of songs",
        "add_to_playlist": "Add a song to a playlist",
        "find_lyrics": "Find the lyrics of a song",
        "set_volume": "Set the volume of the speakers",
        "list_albums": "List the albums of an artist",
        "follow_artist": "Follow an artist",
        "recommend_songs": "Recommend songs like another",
    },
    "travel": {
        "find_trains": "Find trains between two stations",
        "find_flights": "Find flights between two airports",
        "book_hotel": "Book a hotel room for some nights",
        "cancel_booking": "Cancel a hotel or flight booking",
        "seat_map": "Show the seats of a flight",
        "check_in": "Check in for a flight",
        "baggage_rules": "Tell how much baggage a flight permits",
        "train_delays": "List delays of trains at a station",
        "rent_car": "Rent a car at an airport",
        "visa_rules": "Tell whether a traveller needs a visa",
    },
}
"""What each tool does, by topic and name."""
NAMES = [name for tools in TOPICS.values() for name in tools]

SCHEMA = {
    "type": "object",
    "properties": {
        "subject": {"type": "string", "description": "What or where it is about"},
        "limit": {"type": "integer", "minimum": 1, "description": "The most entries to give"},
    },
}


class Depth(BaseModel):
    """How deep snow lies."""

    place: str
    cm: int


class Said(Tool):
    """A tool that says what it was asked."""

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Answer a call."""
        return ToolResult(content=f"{self.name} {arguments.get('subject', '')}".rstrip())


mcp = create_mcp_server("topics", "Help with the day.")


def snow_depth(subject: str = "") -> Depth:
    return Depth(place=subject, cm=42)


async def train_delays(context: Context, subject: str = "") -> str:
    await context.report_progress(1, 2)
    await context.report_progress(2, 2)
    return f"none at {subject}"


_OWN = {function.__name__: function for function in (snow_depth, train_delays)}
"""Those that do more than to say what they were asked: a result by a schema, and progress."""

for topic, tools in TOPICS.items():
    for name, does in tools.items():
        if name in _OWN:
            mcp.tool(_OWN[name], description=f"{does}.", tags={topic})
        else:
            mcp.add_tool(Said(name=name, description=f"{does}.", tags={topic}, parameters=SCHEMA))

if __name__ == "__main__":
    mcp.cli()
