/**
 * Books a meeting at the first hour of a day at which all attendees are free.
 * @param {{title: string, day: string, attendees: string[]}} input
 * @returns {Promise<{id: number, start: string}>}
 */
export default async function ({ title, day, attendees }) {
  const { start } = await calendar.find_free_slot({ day, attendees });
  if (!start) throw new Error(`nobody has time on ${day}`);
  const { id } = await calendar.create_event({ title, start, attendees });
  return { id, start };
}
