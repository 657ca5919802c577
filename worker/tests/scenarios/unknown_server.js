return await forge.callTool("gitlab", "x", {});
