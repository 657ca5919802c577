const close = async (n) => {
  return await github.fail({ n });
};
await close(7);
