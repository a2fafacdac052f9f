"""Every statement that is run on the graph: parameters only, and the same text on every backend.

`$server_name` matches a server's node and, where it is a gateway, those of its upstreams, whose `gateway` it is. Where
one node is meant, only its name is matched.
"""

MATCH_TEXT = """
MATCH (s:Server)-[:PROVIDES]->(t:CallableResource)
WHERE (s.name = $server_name OR s.gateway = $server_name) AND t.text CONTAINS $query
RETURN left(t.digest, 1) AS part, collect(t.name) AS names
"""
"""The literal match of a normalised query in each tool's text: equal to what docs/design.md states.

Names come in at most 16 lists: a row for each costs more than the match, and one list of 10,000 would block the event
loop while a driver unpacks it.
"""

MATCH_TEXT_AND_NEIGHBOURS = f"""{MATCH_TEXT.rpartition("RETURN")[0].rstrip()}
RETURN 'literal' AS kind, left(t.digest, 1) AS part, collect(t.name) AS names,
       collect(CASE WHEN t.name IS NULL THEN '' END) AS ofs, collect(CASE WHEN t.name IS NULL THEN 0 END) AS counts
UNION ALL
MATCH (s:Server)-[:PROVIDES]->(a:CallableResource)-[e:USED_WITH]-(b:CallableResource)
WHERE (s.name = $server_name OR s.gateway = $server_name) AND a.name IN $near AND e.scope = $scope
RETURN 'used_with' AS kind, left(b.digest, 1) AS part, collect(coalesce(b.name, '')) AS names,
       collect(a.name) AS ofs, collect(coalesce(e.n, 0)) AS counts
UNION ALL
MATCH (s:Server)-[:PROVIDES]->(a:CallableResource)-[e:FOLLOWED_BY]->(b:CallableResource)
WHERE (s.name = $server_name OR s.gateway = $server_name) AND a.name IN $near AND e.scope = $scope
RETURN 'followed_by' AS kind, left(b.digest, 1) AS part, collect(coalesce(b.name, '')) AS names,
       collect(a.name) AS ofs, collect(coalesce(e.n, 0)) AS counts
"""
"""The literal match, and the neighbours of the tools in `$near`: aligned lists of their names, of the tools that they
are neighbours of, and of the edges' counts. Only edges of one `$scope` are read.

No count is cut off: a tool that the caller may not use must not displace one that they may. The embedded engine takes
no typed `[]`, so literal matches collect their missing columns from nothing. `IN` is five times as fast on it as
`UNWIND`.
"""

MATCH_TERMS = """
UNWIND $terms AS q
MATCH (s:Server)-[:PROVIDES]->(t:CallableResource)
WHERE (s.name = $server_name OR s.gateway = $server_name) AND t.text CONTAINS q
RETURN q AS term, left(t.digest, 1) AS part, collect(t.name) AS names
"""
"""The match of single terms, in lower case, for a query without a literal match."""

SERVER = """
MATCH (s:Server) WHERE s.name = $server_name OR s.gateway = $server_name
OPTIONAL MATCH (s)-[:PROVIDES]->(t:CallableResource)
RETURN s.name AS name, s.digest AS digest, s.updated_at AS updated_at, count(t.text) AS n_tools
"""
"""A tool without a text, of an older release, is not counted: the next sync writes it anew."""

HELD = """
MATCH (s:Server) WHERE s.name = $server_name OR s.gateway = $server_name
RETURN s.name AS name, coalesce(s.digest, '') AS digest, coalesce(s.edges_digest, '') AS edges_digest,
       EXISTS { MATCH (s)-[:PROVIDES]->(t:CallableResource) } AS has_tools
"""
"""The digests of a server's tools and edges, and whether it has any; counting 10,000 tools takes 20 times as long.

A gateway's own node has the edges' digest.
"""

SERVERS = """
MATCH (s:Server)
OPTIONAL MATCH (s)-[:PROVIDES]->(t:CallableResource)
RETURN s.name AS name, s.gateway AS gateway, s.digest AS digest, s.updated_at AS updated_at, count(t.text) AS n_tools
ORDER BY name
"""

TOOLS = """
MATCH (s:Server)-[:PROVIDES]->(t:CallableResource)
WHERE s.name IN $server_names
RETURN left(t.digest, 1) AS part, collect(coalesce(t.name, '')) AS names, collect(coalesce(t.digest, '')) AS digests,
       collect(coalesce(t.key, '')) AS keys
"""
"""The names of some servers' tools, with aligned digests and keys, in parts as in matches.

`collect` skips nulls: a tool that others wrote without a digest must not shift those of the rest.
"""

PUT_SERVER = """
MERGE (s:Server {name: $server_name})
SET s.digest = $digest, s.updated_at = $updated_at
"""

PUT_UPSTREAMS = """
UNWIND $rows AS r
MERGE (s:Server {name: r.name})
SET s.gateway = $server_name, s.title = r.title, s.description = r.description,
    s.digest = r.digest, s.updated_at = $updated_at
"""
"""The nodes of a gateway's upstreams; `PUT_SERVER` writes its own."""

PUT_TOOLS = """
MATCH (s:Server {name: $server_name})
UNWIND $rows AS r
MERGE (t:CallableResource {key: r.key})
SET t.server = $server_name, t.name = r.name, t.title = r.title, t.description = r.description,
    t.tags = r.tags, t.digest = r.digest, t.kind = r.kind, t.read_only = r.read_only,
    t.text = r.text, t.set_digest = $digest
MERGE (s)-[:PROVIDES]->(t)
"""

DROP_OTHERS = """
MATCH (s:Server {name: $server_name})-[:PROVIDES]->(t:CallableResource)
WHERE t.set_digest IS NULL OR t.set_digest <> $digest
DETACH DELETE t
"""
"""Drops tools that are not of this tool set. A list of 10,000 names to keep would block the interpreter for 8 ms."""

DROP_TOOLS_OF = """
MATCH (s:Server)-[:PROVIDES]->(t:CallableResource)
WHERE s.name IN $server_names
DETACH DELETE t
"""

DROP_SERVERS = """
MATCH (s:Server) WHERE s.name IN $server_names
DETACH DELETE s
"""

PUT_EDGES_DIGEST = """
MATCH (s:Server) WHERE s.name = $server_name
SET s.edges_digest = $digest
"""

DROP_EDGES = """
MATCH (s:Server)-[:PROVIDES]->(:CallableResource)-[e:USED_WITH|FOLLOWED_BY]->(:CallableResource)
WHERE s.name = $server_name OR s.gateway = $server_name
DELETE e
"""

PUT_EDGES = """
UNWIND $rows AS r
MATCH (a:CallableResource) WHERE a.key = r.key
MATCH (b:CallableResource) WHERE b.key = r.to_key
CREATE (a)-[:%s {n: r.n, scope: r.scope}]->(b)
"""
"""Puts edges of one type; `USED_WITH` once for each pair, since it is read both ways.

One `MATCH` for both ends takes the embedded engine 25 times as long among 10,000 tools.
"""
