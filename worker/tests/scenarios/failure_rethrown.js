try {
  await github.fail({});
} catch (e) {
  throw new Error(`gave up: ${e.message}`);
}
