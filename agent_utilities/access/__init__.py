"""Who may call, and what: rules from who one is to a surface, and tokens for a small team."""
