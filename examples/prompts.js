// A server's prompt, filled in with arguments.
const prompt = await forge.prompt("everything", "args-prompt", { city: "Oslo" });
return prompt.messages.map((message) => [message.role, message.content.text]);
