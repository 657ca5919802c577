//! The tasks, and what the state must be when they are done. Expectations are computed from the founding state.

use std::{collections::BTreeMap, path::Path};

use serde_json::{Value, json};

use super::{
    company::founding,
    server::{euros, read_state, text},
};

/// A task: its name, the words that the model is given, and the check of the final state.
pub(super) struct Task {
    pub(super) name: &'static str,
    pub(super) words: &'static str,
    check: fn(&Path) -> anyhow::Result<(Value, Value)>,
}

/// The tasks, to be done in this order.
pub(super) const TASKS: [Task; 6] = [
    Task {
        name: "growth",
        words: "Which customer's orders grew the most in EUR from September to October 2026 (by the day they were placed)? \
                Mail the customer's id, and nothing else, to chief@fjord.example from reports@fjord.example with the \
                subject `Growth`.",
        check: growth,
    },
    Task {
        name: "priority",
        words: "Give every open order over 500 EUR of a customer in Norway the status `priority`.",
        check: priority,
    },
    Task {
        name: "overdue",
        words: "Today is 2026-11-23. Mail each customer who has unpaid invoices that were due before today, one mail a \
                customer, from billing@fjord.example with the subject `Overdue invoices`: a line `NUMBER AMOUNT` for each \
                invoice in order of number, then a line `total AMOUNT`.",
        check: overdue,
    },
    Task {
        name: "tickets",
        words: "Assign every open ticket without an owner, in order of number, to the support engineer who has the fewest \
                open tickets at that point (ties by alphabet) and is not absent on 2026-11-23; the wiki knows who.",
        check: tickets,
    },
    Task {
        name: "stock",
        words: "Append to the wiki page `stock-report` a line `SKU STOCK` for each product whose stock is at or below its \
                reorder level, sorted by SKU, and keep everything that others wrote there.",
        check: stock,
    },
    Task {
        name: "duplicates",
        words: "Customers with the same mail address (upper and lower case are the same) are duplicates: move the orders \
                of the newer record that are not shipped to the older one, then merge the newer into the older.",
        check: duplicates,
    },
];

/// Compares the state with what each task asks for; the error says what is expected and what is there.
pub(super) fn check(folder: &Path) -> anyhow::Result<Vec<(&'static str, Result<(), String>)>> {
    let mut outcomes = Vec::new();
    for task in &TASKS {
        let (expected, found) = (task.check)(folder)?;
        let same = if expected == found { Ok(()) } else { Err(difference(&expected, &found)) };
        outcomes.push((task.name, same));
    }
    Ok(outcomes)
}

/// Rows of one side that the other has not; else both values.
fn difference(expected: &Value, found: &Value) -> String {
    if let (Value::Object(expected), Value::Object(found)) = (expected, found) {
        let differs = expected.iter().filter_map(|(key, value)| found.get(key).map(|other| (key, value, other)));
        let differs = differs.filter(|(_, value, other)| value != other);
        return differs.map(|(key, value, other)| format!("{key}: {}", difference(value, other))).collect();
    }
    let (Some(rows), Some(others)) = (expected.as_array(), found.as_array()) else {
        return format!("expected {expected}\n   found {found}");
    };
    let without =
        |some: &[Value], of: &[Value]| some.iter().filter(|row| !of.contains(row)).cloned().collect::<Value>();
    format!("expected {}\n   found {}", without(rows, others), without(others, rows))
}

fn growth(folder: &Path) -> anyhow::Result<(Value, Value)> {
    let mut grown: BTreeMap<String, i64> = BTreeMap::new();
    for order in rows(&founding("shop"), "orders") {
        let sign = match text(&order["placed"]).get(..7) {
            Some("2026-09") => -1,
            Some("2026-10") => 1,
            _ => 0,
        };
        *grown.entry(text(&order["customer_id"]).to_owned()).or_default() +=
            sign * order["cents"].as_i64().unwrap_or(0);
    }
    let most = grown.into_iter().max_by_key(|(_, cents)| *cents).map(|(id, _)| id);
    let found = mails(folder, "Growth")?;
    Ok((json!([{"from": "reports@fjord.example", "to": "chief@fjord.example", "body": most}]), found))
}

fn priority(folder: &Path) -> anyhow::Result<(Value, Value)> {
    let desk = founding("crm-desk");
    let norwegian = |id: &Value| rows(&desk, "customers").any(|row| row["id"] == *id && row["country"] == "NO");
    let shop = founding("shop");
    let expected = rows(&shop, "orders").map(|order| {
        let large =
            order["status"] == "open" && order["cents"].as_u64() > Some(50_000) && norwegian(&order["customer_id"]);
        json!([order["id"], if large { json!("priority") } else { order["status"].clone() }])
    });
    let expected = expected.collect();
    let shop = read_state(folder, "shop")?;
    Ok((expected, rows(&shop, "orders").map(|order| json!([order["id"], order["status"]])).collect()))
}

fn overdue(folder: &Path) -> anyhow::Result<(Value, Value)> {
    let (ledger, desk) = (founding("ledger"), founding("crm-desk"));
    let mut due: BTreeMap<&str, (String, u64)> = BTreeMap::new();
    for invoice in rows(&ledger, "invoices").filter(|row| row["paid"].is_null() && text(&row["due"]) < "2026-11-23") {
        let customer = rows(&desk, "customers").find(|row| row["id"] == invoice["customer_id"]);
        let (lines, total) = due.entry(customer.map_or("", |row| text(&row["email"]))).or_default();
        let cents = invoice["cents"].as_u64().unwrap_or_default();
        lines.push_str(&format!("{} {}\n", text(&invoice["number"]), euros(cents)));
        *total += cents;
    }
    let mail = |(to, (lines, total)): (&str, (String, u64))| json!({"from": "billing@fjord.example", "to": to, "body": format!("{lines}total {}", euros(total))});
    Ok((due.into_iter().map(mail).collect(), mails(folder, "Overdue invoices")?))
}

fn tickets(folder: &Path) -> anyhow::Result<(Value, Value)> {
    let desk = founding("crm-desk");
    let mut expected: Vec<Value> = rows(&desk, "tickets").cloned().collect();
    for index in 0..expected.len() {
        if expected[index]["state"] == "open" && expected[index]["owner"].is_null() {
            let busy =
                |name: &&str| expected.iter().filter(|row| row["state"] == "open" && row["owner"] == **name).count();
            let least = ["ada", "ines", "tor"].into_iter().min_by_key(busy);
            expected[index]["owner"] = json!(least);
        }
    }
    let pair = |row: &Value| json!([row["ticket"], row["owner"]]);
    let found = read_state(folder, "crm-desk")?;
    Ok((expected.iter().map(pair).collect(), rows(&found, "tickets").map(pair).collect()))
}

fn stock(folder: &Path) -> anyhow::Result<(Value, Value)> {
    let shop = founding("shop");
    let low = rows(&shop, "products").filter(|row| row["stock"].as_u64() <= row["reorder_at"].as_u64());
    let mut low: Vec<String> = low.map(|row| format!("{} {}", text(&row["sku"]), row["stock"])).collect();
    low.sort();
    let page = &founding("wiki")["pages"]["stock-report"];
    let expected = format!("{}{}{}", text(&page["text"]), text(&page["edit"]), low.join("\n"));
    let found = read_state(folder, "wiki")?;
    Ok((json!(expected), json!(text(&found["pages"]["stock-report"]["text"]).trim_end())))
}

fn duplicates(folder: &Path) -> anyhow::Result<(Value, Value)> {
    let kept = |id: &Value| match text(id) {
        "C24" => json!("C02"),
        "C29" => json!("C07"),
        _ => id.clone(),
    };
    let shop = founding("shop");
    let orders = rows(&shop, "orders").map(|order| {
        let customer = &order["customer_id"];
        json!([order["id"], if order["status"] == "shipped" { customer.clone() } else { kept(customer) }])
    });
    let desk = founding("crm-desk");
    let customers = rows(&desk, "customers").map(|row| &row["id"]).filter(|id| kept(id) == **id).cloned();
    let expected = json!({"orders": orders.collect::<Vec<_>>(), "customers": customers.collect::<Vec<_>>()});
    let (shop, desk) = (read_state(folder, "shop")?, read_state(folder, "crm-desk")?);
    let orders: Vec<Value> = rows(&shop, "orders").map(|order| json!([order["id"], order["customer_id"]])).collect();
    let customers: Vec<&Value> = rows(&desk, "customers").map(|row| &row["id"]).collect();
    Ok((expected, json!({"orders": orders, "customers": customers})))
}

/// Mails with a subject, by recipient; a line end after the last line is the writer's choice.
fn mails(folder: &Path, subject: &str) -> anyhow::Result<Value> {
    let state = read_state(folder, "mail")?;
    let mails = rows(&state, "sent").filter(|mail| mail["subject"] == subject);
    let mut mails: Vec<Value> = mails
        .map(|mail| json!({"from": mail["from"], "to": mail["to"], "body": text(&mail["body"]).trim_end()}))
        .collect();
    mails.sort_by(|one, other| text(&one["to"]).cmp(text(&other["to"])));
    Ok(mails.into())
}

fn rows<'a>(state: &'a Value, table: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    state[table].as_array().into_iter().flatten()
}
