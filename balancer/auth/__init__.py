"""Who may call what: tokens with roles, signed hooks, one policy table, limits."""
