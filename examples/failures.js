// Errors can be caught: a tool's own error, and arguments that fail validation.
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
