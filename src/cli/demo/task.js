// Open payment tickets without an owner go to whoever is on call, who gets a slot to look at them.
const [{ tickets: open }, { on_call }] = await Promise.all([
  tickets.list_tickets({ status: "open" }),
  people.list_on_call({ team: "payments" }),
]);
const orphans = open.filter((t) => !t.assignee && t.labels.includes("payments"));
const owner = on_call.payments;
await forge.parallel(orphans.map((t) => () => tickets.assign_ticket({ id: t.id, assignee: owner })));
const { start } = await calendar.find_free_slot({ day: "2026-03-02", attendees: [owner] });
const event = await calendar.create_event({ title: `Triage: ${orphans.length} tickets`, start, attendees: [owner] });
return { owner, assigned: orphans.map((t) => t.title), at: event.start };
