//! Tools of a shop and its tracker, for ordinary scripts.

use serde_json::{Value, json};

/// The answer of a tool of a shop and its tracker.
pub(super) fn answer(tool: &str, args: &Value) -> Option<Result<Value, String>> {
    let number = |key: &str, default: u64| args.get(key).and_then(Value::as_u64).unwrap_or(default);
    Some(Ok(match tool {
        "list_orders" => {
            let (page, size) = (number("page", 1), number("per_page", 3));
            let all = orders();
            let status = args.get("status").and_then(Value::as_str);
            let all: Vec<_> = all.into_iter().filter(|it| status.is_none_or(|status| it["status"] == status)).collect();
            let start = usize::try_from((page - 1) * size).ok()?.min(all.len());
            let end = (start + usize::try_from(size).ok()?).min(all.len());
            let next = (end < all.len()).then_some(page + 1);
            json!({"orders": all[start..end], "next_page": next, "total": all.len()})
        }
        "get_order" => {
            let id = number("id", 0);
            let order = orders().into_iter().find(|order| order["id"] == id);
            return Some(order.ok_or_else(|| format!("there is no order {id}")));
        }
        "list_issues" => {
            let state = args.get("state").and_then(Value::as_str).unwrap_or("open");
            issues().into_iter().filter(|issue| state == "all" || issue["state"] == state).collect()
        }
        "get_user" => match args.get("login").and_then(Value::as_str) {
            Some(login @ ("ada" | "bob")) => json!({"login": login, "email": format!("{login}@example.com")}),
            _ => return Some(Err("no such user".to_owned())),
        },
        "create_issue" => json!({"number": 101, "title": args["title"], "body": args["body"]}),
        "export" => json!("id,name,amount\n1,Ada,10\n2,Bob,20\n3,Cy,30\n"),
        "report" => json!("{\"count\": 3, \"rows\": [1, 2, 3]}"),
        _ => return None,
    }))
}

fn orders() -> Vec<Value> {
    [
        (1, "Ada", 120.5, "paid", "2025-06-01"),
        (2, "Bob", 80.0, "open", "2025-06-02"),
        (3, "Ada", 19.99, "paid", "2025-06-03"),
        (4, "Cy", 1500.0, "paid", "2025-06-03"),
        (5, "Bob", 45.25, "cancelled", "2025-06-05"),
        (6, "Ada", 7.5, "open", "2025-06-07"),
        (7, "Dee", 300.0, "paid", "2025-06-08"),
    ]
    .map(|(id, customer, total, status, date)| {
        json!({"id": id, "customer": customer, "total": total, "status": status, "date": date,
            "lines": [{"sku": format!("S{id}"), "qty": id, "price": total}]})
    })
    .to_vec()
}

fn issues() -> Vec<Value> {
    [
        (11, "Crash on login", "open", json!(["bug", "urgent"]), json!("ada"), 5),
        (12, "Add dark mode", "open", json!(["feature"]), json!(null), 2),
        (13, "Typo in docs", "closed", json!(["docs"]), json!("bob"), 0),
        (14, "Slow search", "open", json!(["bug"]), json!("bob"), 9),
        (15, "Crash on save", "closed", json!(["bug"]), json!(null), 3),
    ]
    .map(|(number, title, state, labels, assignee, comments)| {
        json!({"number": number, "title": title, "state": state, "labels": labels, "assignee": assignee,
            "comments": comments})
    })
    .to_vec()
}
