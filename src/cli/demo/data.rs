//! Data and tools of the sample server.

use serde_json::{Value, json};

/// The sample company.
pub(super) struct Data {
    tickets: Vec<Value>,
    users: Vec<Value>,
    events: Vec<Value>,
}

impl Data {
    pub(super) fn new() -> Self {
        let ticket = |id: u32, title: &str, status: &str, priority: &str, assignee: Option<&str>, label: &str| json!({"id": id, "title": title, "status": status, "priority": priority, "assignee": assignee, "labels": [label]});
        let user = |name: &str, full: &str, team: &str, zone: &str| json!({"name": name, "full_name": full, "email": format!("{name}@example.com"), "team": team, "time_zone": zone});
        let event = |id: u32, title: &str, start: &str, minutes: u32, attendees: &[&str]| json!({"id": id, "title": title, "start": start, "minutes": minutes, "attendees": attendees});
        Self {
            tickets: vec![
                ticket(1, "Checkout fails for gift cards", "open", "urgent", None, "payments"),
                ticket(2, "Typo on the pricing page", "open", "low", Some("lee"), "website"),
                ticket(3, "Refunds are booked twice", "in_progress", "high", Some("amara"), "payments"),
                ticket(4, "Search is slow on mobile", "open", "normal", None, "search"),
                ticket(5, "Invoices show the wrong tax", "open", "high", None, "payments"),
            ],
            users: vec![
                user("amara", "Amara Okafor", "payments", "Africa/Lagos"),
                user("jonas", "Jonas Lindqvist", "payments", "Europe/Stockholm"),
                user("lee", "Lee Park", "web", "Asia/Seoul"),
                user("maria", "Maria Souza", "web", "America/Sao_Paulo"),
            ],
            events: vec![
                event(1, "Payments standup", "2026-03-02T09:00:00Z", 15, &["amara", "jonas"]),
                event(2, "Design review", "2026-03-02T10:00:00Z", 60, &["jonas", "lee"]),
                event(3, "Interview", "2026-03-02T11:00:00Z", 60, &["amara"]),
            ],
        }
    }
}

/// Calls a tool; the error is the tool's own.
pub(super) fn call(data: &mut Data, tool: &str, args: &Value) -> Result<Value, String> {
    match tool {
        "list_tickets" => Ok(tickets(data, args, |_| true)),
        "search_tickets" => {
            let words = text(args, "query").to_lowercase();
            Ok(tickets(data, args, |ticket| text(ticket, "title").to_lowercase().contains(&words)))
        }
        "get_ticket" => find(&data.tickets, args, "ticket").map(|position| data.tickets[position].clone()),
        "create_ticket" => Ok(create_ticket(data, args)),
        "update_ticket" | "assign_ticket" => {
            let position = find(&data.tickets, args, "ticket")?;
            let ticket = &mut data.tickets[position];
            for (key, value) in args.as_object().into_iter().flatten().filter(|(key, _)| *key != "id") {
                ticket[key] = value.clone();
            }
            Ok(ticket.clone())
        }
        "add_comment" => find(&data.tickets, args, "ticket").map(|_| json!({"ok": true})),
        "delete_ticket" => removed(&mut data.tickets, args, "ticket"),
        "list_users" => Ok(json!({"users": matching(&data.users, args, &["team"])})),
        "find_users" => {
            let part = text(args, "query").to_lowercase();
            let fits = |user: &&Value| user.to_string().to_lowercase().contains(&part);
            Ok(json!({"users": data.users.iter().filter(fits).collect::<Vec<_>>()}))
        }
        "get_user" => user(data, text(args, "name")),
        "get_manager" => user(data, text(args, "name")).and_then(|_| user(data, "maria")),
        "list_teams" => Ok(json!({"teams": [{"name": "payments", "size": 2}, {"name": "web", "size": 2}]})),
        "list_on_call" => Ok(json!({"on_call": {"payments": "jonas", "web": "lee"}})),
        "list_events" => Ok(json!({"events": events(data, args)})),
        "get_event" => find(&data.events, args, "event").map(|position| data.events[position].clone()),
        "create_event" => {
            let mut event = args.clone();
            event["id"] = json!(data.events.len() + 1);
            if event.get("minutes").is_none() {
                event["minutes"] = json!(30);
            }
            data.events.push(event.clone());
            Ok(event)
        }
        "cancel_event" => removed(&mut data.events, args, "event"),
        "find_free_slot" => Ok(json!({"start": free_slot(data, args)})),
        "list_rooms" => Ok(json!({"rooms": [{"name": "Baikal", "size": 4}, {"name": "Victoria", "size": 10}]})),
        other => Err(format!("there is no tool {other}")),
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn find(entries: &[Value], args: &Value, what: &str) -> Result<usize, String> {
    let position = entries.iter().position(|entry| entry.get("id") == args.get("id"));
    position.ok_or_else(|| format!("there is no {what} {}", args.get("id").unwrap_or(&Value::Null)))
}

fn removed(entries: &mut Vec<Value>, args: &Value, what: &str) -> Result<Value, String> {
    entries.remove(find(entries, args, what)?);
    Ok(json!({"ok": true}))
}

/// Entries that match the arguments in each of `keys`.
fn matching<'a>(entries: &'a [Value], args: &Value, keys: &[&str]) -> Vec<&'a Value> {
    let fits =
        |entry: &&Value| keys.iter().all(|key| args.get(key).is_none_or(|wanted| entry.get(key) == Some(wanted)));
    entries.iter().filter(fits).collect()
}

fn tickets(data: &Data, args: &Value, fits: impl Fn(&Value) -> bool) -> Value {
    let limit = args.get("limit").and_then(Value::as_u64).and_then(|limit| usize::try_from(limit).ok()).unwrap_or(20);
    let found = matching(&data.tickets, args, &["status", "priority", "assignee"]);
    let found: Vec<&Value> = found.into_iter().filter(|ticket| fits(ticket)).collect();
    json!({"total": found.len(), "tickets": found.into_iter().rev().take(limit).collect::<Vec<_>>()})
}

fn create_ticket(data: &mut Data, args: &Value) -> Value {
    let last = data.tickets.iter().filter_map(|ticket| ticket.get("id")?.as_u64()).max().unwrap_or(0);
    let given = |key: &str, usual: Value| args.get(key).cloned().unwrap_or(usual);
    let ticket = json!({
        "id": last + 1, "title": text(args, "title"), "status": "open", "priority": given("priority", json!("normal")),
        "assignee": null, "labels": given("labels", json!([])),
    });
    data.tickets.push(ticket.clone());
    ticket
}

fn user(data: &Data, name: &str) -> Result<Value, String> {
    let found = data.users.iter().find(|user| text(user, "name") == name);
    found.cloned().ok_or_else(|| format!("there is no user {name}"))
}

fn invited(event: &Value, name: &str) -> bool {
    event["attendees"].as_array().into_iter().flatten().any(|attendee| attendee == name)
}

fn events<'a>(data: &'a Data, args: &Value) -> Vec<&'a Value> {
    let (day, attendee) = (text(args, "day"), text(args, "attendee"));
    let fits =
        |event: &&Value| text(event, "start").starts_with(day) && (attendee.is_empty() || invited(event, attendee));
    data.events.iter().filter(fits).collect()
}

/// The first full hour from 9 to 16 at which everyone is free.
fn free_slot(data: &Data, args: &Value) -> Value {
    let day = text(args, "day");
    let people: Vec<&str> = args["attendees"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let busy = |start: &str| {
        data.events.iter().any(|event| text(event, "start") == start && people.iter().any(|name| invited(event, name)))
    };
    let hours = (9..17).map(|hour| format!("{day}T{hour:02}:00:00Z"));
    hours.into_iter().find(|start| !busy(start)).map_or(Value::Null, Value::String)
}
