"""Who may call, and what: login in front, and rules of access from who one is to a surface."""
