try {
  await github.fail({});
} catch (e) {
  return { forge: e instanceof ForgeError, code: e.code, message: e.message, retryable: e.retryable, data: e.data };
}
