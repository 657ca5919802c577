/** Returns the user name of the person who is on call for a team. */
export default async function ({ team }: { team: "payments" | "web" }): Promise<string> {
  const { on_call } = await people.list_on_call({ team });
  return on_call[team];
}
