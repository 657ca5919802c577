let made = 0;
for (;;) {
  try { await forge.parallel([() => github.echo({})]); made++; } catch (e) { return [made, e.code]; } finally { made += 0; }
}
