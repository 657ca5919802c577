// A value over `result_tokens` is stored below /results: the agent gets its shape, its beginning and its path.
// `forgefs run` prints it whole.
const entities = Array.from({ length: 300 }, (_, n) => ({
  name: `room ${n}`,
  entityType: "room",
  observations: [`floor ${Math.floor(n / 30)}`, `${n % 7} chairs`],
}));
await memory.create_entities({ entities });
return await memory.read_graph();
