//! One server of the company: MCP on stdin and stdout, its state in a file.

use std::{
    fs,
    io::{self, BufRead as _, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, anyhow, bail};
use serde_json::{Map, Value, json};

/// Definitions of all tools by server. None has an output schema, on purpose.
const TOOLS: &str = include_str!("tools.json");

/// File of a server's state, in the folder of all states.
pub(super) fn state_file(folder: &Path, server: &str) -> PathBuf {
    folder.join(format!("{server}.json"))
}

/// Reads a state.
pub(super) fn read_state(folder: &Path, server: &str) -> anyhow::Result<Value> {
    let file = state_file(folder, server);
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(serde_json::from_str(&text)?)
}

/// Serves until stdin is closed.
pub(super) fn serve(server: &str, folder: &Path) -> anyhow::Result<()> {
    let tools: Map<String, Value> = serde_json::from_str(TOOLS)?;
    let tools = tools.get(server).ok_or_else(|| anyhow!("unknown server `{server}`"))?;
    for line in io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        let (Some(id), params) = (request.get("id"), &request["params"]) else { continue };
        let result = match request["method"].as_str().unwrap_or_default() {
            "initialize" => Ok(json!({
                "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": server, "version": "1"},
            })),
            "ping" => Ok(json!({})),
            "tools/list" => Ok(json!({"tools": tools})),
            "tools/call" => Ok(match call(server, folder, params) {
                Ok(text) => json!({"content": [{"type": "text", "text": text}]}),
                Err(error) => json!({"content": [{"type": "text", "text": format!("{error:#}")}], "isError": true}),
            }),
            method => Err(json!({"code": -32601, "message": format!("no method {method}")})),
        };
        let (key, value) = result.map_or_else(|error| ("error", error), |result| ("result", result));
        writeln!(io::stdout(), "{}", json!({"jsonrpc": "2.0", "id": id, key: value}))?;
    }
    Ok(())
}

fn call(server: &str, folder: &Path, params: &Value) -> anyhow::Result<String> {
    let (tool, arguments) = (params["name"].as_str().unwrap_or_default(), &params["arguments"]);
    let mut state = read_state(folder, server)?;
    let before = state.clone();
    let answer = match server {
        "shop" => shop(&mut state, tool, arguments),
        "crm-desk" => crm(&mut state, tool, arguments),
        "ledger" => ledger(&state, tool, arguments),
        "mail" => mail(&mut state, tool, arguments),
        _ => wiki(&mut state, tool, arguments),
    };
    // A refused write may have changed the state too: a colleague's edit.
    if state != before {
        let file = state_file(folder, server);
        fs::write(file.with_extension("new"), format!("{state:#}\n"))?;
        fs::rename(file.with_extension("new"), file)?;
    }
    answer
}

fn shop(state: &mut Value, tool: &str, arguments: &Value) -> anyhow::Result<String> {
    match tool {
        "list_orders" => {
            let cursor = arguments["cursor"].as_str();
            let start: usize = cursor
                .map_or(Some(0), |cursor| cursor.strip_prefix("o:")?.parse().ok())
                .ok_or_else(|| anyhow!("bad cursor"))?;
            let orders = rows(&mut state["orders"]).iter();
            let orders: Vec<&Value> = orders.filter(|order| wanted(&arguments["status"], &order["status"])).collect();
            let page = orders.iter().skip(start).take(20);
            let page = page.map(|o| {
                json!({"id": o["id"], "customer_id": o["customer_id"], "placed": o["placed"],
                "status": o["status"]})
            });
            let mut answer = json!({"orders": page.collect::<Vec<_>>()});
            if start + 20 < orders.len() {
                answer["next_cursor"] = json!(format!("o:{}", start + 20));
            }
            Ok(answer.to_string())
        }
        "list_products" => Ok(page(rows(&mut state["products"]), arguments, 15, "items")),
        _ => {
            let order = find(&mut state["orders"], "id", &arguments["id"])?;
            if tool == "get_order" {
                let cents = order["cents"].as_u64().unwrap_or_default();
                return Ok(json!({"id": order["id"], "customer_id": order["customer_id"], "placed": order["placed"],
                    "status": order["status"], "total": {"amount": euros(cents), "currency": "EUR"},
                    "version": order["version"]})
                .to_string());
            }
            // The warehouse touches some orders between the reading and the first write.
            if order["touched"] == false {
                order["touched"] = json!(true);
                raise(order);
            }
            same_version(order, &arguments["version"])?;
            let field = if tool == "move_order" { "customer_id" } else { "status" };
            order[field] = arguments[field].clone();
            raise(order);
            Ok(format!("Order {} saved.", order["id"]))
        }
    }
}

fn crm(state: &mut Value, tool: &str, arguments: &Value) -> anyhow::Result<String> {
    match tool {
        "find-customers" => {
            let found = rows(&mut state["customers"]).iter();
            let found: Vec<Value> = found.filter(|c| wanted(&arguments["country"], &c["country"])).cloned().collect();
            Ok(page(&found, arguments, 6, "results"))
        }
        "merge-customers" => {
            find(&mut state["customers"], "id", &arguments["keep"])?;
            find(&mut state["customers"], "id", &arguments["drop"])?;
            if arguments["keep"] == arguments["drop"] {
                bail!("a customer cannot be merged with itself");
            }
            rows(&mut state["customers"]).retain(|customer| customer["id"] != arguments["drop"]);
            Ok("merged".to_owned())
        }
        "list-tickets" => {
            let number = arguments["page"].as_u64().unwrap_or(1).max(1) as usize;
            let tickets = rows(&mut state["tickets"]).iter();
            let tickets = tickets.filter(|ticket| wanted(&arguments["state"], &ticket["state"]));
            Ok(Value::from_iter(tickets.skip((number - 1) * 10).take(10).cloned()).to_string())
        }
        _ => {
            let ticket = find(&mut state["tickets"], "ticket", &arguments["ticket"])?;
            same_version(ticket, &arguments["if-version"])?;
            ticket["owner"] = arguments["to"].clone();
            raise(ticket);
            Ok(format!("#{} → {}", ticket["ticket"], text(&ticket["owner"])))
        }
    }
}

fn ledger(state: &Value, _tool: &str, arguments: &Value) -> anyhow::Result<String> {
    if arguments["table"] != "invoices" {
        return Ok("account;name\n1500;Receivables\n3000;Sales\n".to_owned());
    }
    let mut csv = "number,customer_id,customer,amount,due,paid_on\n".to_owned();
    for invoice in state["invoices"].as_array().into_iter().flatten() {
        let [number, id, name, due, paid] =
            ["number", "customer_id", "customer", "due", "paid"].map(|field| text(&invoice[field]));
        let name =
            if name.contains([',', '"']) { format!("\"{}\"", name.replace('"', "\"\"")) } else { name.to_owned() };
        let amount = euros(invoice["cents"].as_u64().unwrap_or_default());
        csv.push_str(&format!("{number},{id},{name},{amount},{due},{paid}\n"));
    }
    Ok(csv)
}

fn mail(state: &mut Value, tool: &str, arguments: &Value) -> anyhow::Result<String> {
    let sent = rows(&mut state["sent"]);
    if tool == "send_mail" {
        if !text(&arguments["to"]).contains('@') {
            bail!("`{}` is no mail address", text(&arguments["to"]));
        }
        sent.push(arguments.clone());
        return Ok(format!("Message {} queued", sent.len()));
    }
    let own = sent.iter().filter(|mail| wanted(&arguments["from"], &mail["from"]));
    let lines: Vec<String> = own.map(|mail| format!("{}\t{}", text(&mail["to"]), text(&mail["subject"]))).collect();
    Ok(if lines.is_empty() { "No messages.".to_owned() } else { lines.join("\n") })
}

fn wiki(state: &mut Value, tool: &str, arguments: &Value) -> anyhow::Result<String> {
    let pages = state["pages"].as_object_mut().context("no pages")?;
    if tool == "list_pages" {
        return Ok(pages.keys().cloned().collect::<Vec<_>>().join("\n"));
    }
    let title = text(&arguments["title"]);
    let page = pages.get_mut(title).ok_or_else(|| anyhow!("no page `{title}`"))?;
    if tool == "read_page" {
        return Ok(format!("version: {}\n---\n{}", page["version"], text(&page["text"])));
    }
    let edit = text(&page["edit"]).to_owned();
    if !edit.is_empty() {
        page["text"] = json!(format!("{}{edit}", text(&page["text"])));
        page["edit"] = json!("");
        raise(page);
    }
    same_version(page, &arguments["version"])?;
    page["text"] = arguments["text"].clone();
    raise(page);
    Ok(format!("saved as version {}", page["version"]))
}

/// A page of rows as JSON, with the number of pages.
fn page(rows: &[Value], arguments: &Value, size: usize, key: &str) -> String {
    let number = arguments["page"].as_u64().unwrap_or(1).max(1) as usize;
    let shown: Vec<&Value> = rows.iter().skip((number - 1) * size).take(size).collect();
    json!({key: shown, "page": number, "pages": rows.len().div_ceil(size)}).to_string()
}

fn rows(table: &mut Value) -> &mut Vec<Value> {
    if !table.is_array() {
        *table = json!([]);
    }
    table.as_array_mut().expect("it was made one")
}

fn find<'a>(table: &'a mut Value, field: &str, value: &Value) -> anyhow::Result<&'a mut Value> {
    rows(table).iter_mut().find(|row| row[field] == *value).ok_or_else(|| anyhow!("no record with {field} {value}"))
}

fn wanted(filter: &Value, value: &Value) -> bool {
    filter.is_null() || filter == value
}

fn same_version(row: &Value, version: &Value) -> anyhow::Result<()> {
    if row["version"] != *version {
        bail!("conflict: version is {}, not {version}; read it again", row["version"]);
    }
    Ok(())
}

fn raise(row: &mut Value) {
    row["version"] = json!(row["version"].as_u64().unwrap_or_default() + 1);
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(super) fn euros(cents: u64) -> String {
    format!("{}.{:02}", cents / 100, cents % 100)
}
