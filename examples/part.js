// After `large.js` in the same session: reads its stored result, and answers with the part that counts. For lines of
// its text: `cat` with `lines`.
const [stored] = await forge.results.list();
const { entities } = await forge.results.get(stored.path);
const rooms = entities.filter(({ observations: [floor, chairs] }) => floor === "floor 2" && chairs === "6 chairs");
return { path: stored.path, rooms: rooms.map((room) => room.name) };
