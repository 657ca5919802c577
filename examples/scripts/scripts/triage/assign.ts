/** Assigns the open tickets of a team that nobody owns to the person on call, who gets an hour for them. */
export default async function ({ team, day }: { team: "payments" | "web"; day: string }): Promise<{
  owner: string;
  assigned: number[];
  start: string | null;
}> {
  const [ids, owner] = await Promise.all([
    scripts.triage_orphans({ label: team }),
    scripts.on_call({ team }),
  ]);
  for (const id of ids) await tickets.assign_ticket({ id, assignee: owner });
  if (ids.length === 0) return { owner, assigned: [], start: null };
  const title = `Triage of ${ids.length} tickets`;
  const { start } = await scripts.book_meeting({ title, day, attendees: [owner] });
  return { owner, assigned: ids, start };
}
