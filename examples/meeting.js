// time (all zones in parallel) → filesystem → memory: noon in UTC in other zones.
const zones = ["America/New_York", "Asia/Tokyo", "Asia/Kolkata"];

const answers = await forge.parallel(
  zones.map((zone) => () => time.convert_time({ source_timezone: "UTC", time: "12:00", target_timezone: zone })),
);
const plan = answers.map((answer) => `${answer.target.timezone} ${answer.target.datetime.slice(11, 16)}`);
await filesystem.write_file({ path: "forgefs-example-meeting.txt", content: plan.join("\n") });

await memory.create_entities({ entities: [{ name: "meeting", entityType: "event", observations: plan }] });
const { entities } = await memory.search_nodes({ query: "meeting" });
return entities.find((entity) => entity.name === "meeting").observations.length === zones.length ? plan : null;
