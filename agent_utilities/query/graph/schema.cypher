// Constraints and indexes of the tool graph; each statement can be run again without effect.
CREATE CONSTRAINT server_name IF NOT EXISTS FOR (s:Server) REQUIRE s.name IS UNIQUE;
CREATE CONSTRAINT callable_key IF NOT EXISTS FOR (t:CallableResource) REQUIRE t.key IS UNIQUE;
CREATE INDEX server_gateway IF NOT EXISTS FOR (s:Server) ON (s.gateway);
CREATE INDEX callable_server IF NOT EXISTS FOR (t:CallableResource) ON (t.server);
CREATE FULLTEXT INDEX callable_text IF NOT EXISTS
  FOR (t:CallableResource) ON EACH [t.name, t.title, t.description];
