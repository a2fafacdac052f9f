"""How much each person, tool and upstream may be called."""
