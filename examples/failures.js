// What goes wrong can be caught: a tool's own refusal, and arguments that never reach the tool.
async function attempt(call) {
  try {
    return await call();
  } catch (error) {
    return error.code;
  }
}

return {
  sum: await attempt(() => everything.get_sum({ a: 40, b: 2 })),
  refused: await attempt(() => filesystem.read_text_file({ path: "/etc/hosts" })),
  wrong: await attempt(() => time.get_current_time({ timezone: 5 })),
};
