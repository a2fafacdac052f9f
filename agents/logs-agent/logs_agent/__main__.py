"""The `logs-agent-mcp` command: the server is imported once its options are known to be good."""

from agent_utilities import server_command

main = server_command("logs-agent", "logs_agent.server:mcp")

if __name__ == "__main__":
    main()
