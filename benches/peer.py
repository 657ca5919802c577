"""FastMCP's CodeMode in front of one of the sample servers, for `benches/gateway.rs`: fastmcp[code-mode]==4.1.2."""

import sys

from fastmcp.experimental.transforms.code_mode import CodeMode
from fastmcp.server import create_proxy

people = {"command": sys.argv[1], "args": ["demo-server", "people"]}
server = create_proxy({"mcpServers": {"people": people}}, name="peer")
server.add_transform(CodeMode())
server.run(show_banner=False)
