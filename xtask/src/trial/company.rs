//! The company at its founding: what each server's state is before the first task.

use serde_json::{Map, Value, json};

/// The servers, in the order of the catalog.
pub(super) const SERVERS: [&str; 5] = ["crm-desk", "ledger", "mail", "shop", "wiki"];

/// Customers with a record of their own; two more are duplicates of the third and the eighth.
const CUSTOMERS: [(&str, &str); 14] = [
    ("Aas & Sons", "NO"),
    ("Berg, Lie and Moe", "NO"),
    ("Cirrus Optics", "SE"),
    ("Dahl Fisheries", "NO"),
    ("Eider Down", "DK"),
    ("Fonn Energy", "NO"),
    ("Graben GmbH", "DE"),
    ("Hav \"The Sea\" Tours", "NO"),
    ("Iris Labs", "SE"),
    ("Juno Foods", "DK"),
    ("Kvist Timber", "SE"),
    ("Lund Cycles", "SE"),
    ("Moss Paper", "NO"),
    ("Nord Data", "DK"),
];

/// State of a server before the first task.
pub(super) fn founding(server: &str) -> Value {
    match server {
        "crm-desk" => json!({"customers": customers(), "tickets": tickets()}),
        "ledger" => json!({"invoices": invoices()}),
        "mail" => json!({"sent": []}),
        "shop" => json!({"orders": orders(), "products": products()}),
        _ => json!({"pages": pages()}),
    }
}

fn customers() -> Vec<Value> {
    let record = |id: usize, number: usize, mail: &dyn Fn(String) -> String| {
        let (name, country) = CUSTOMERS[number];
        let word: String = name.chars().take_while(char::is_ascii_alphabetic).collect();
        let since = format!("20{}-0{}-11", 14 + id % 10, 1 + id % 9);
        json!({"id": format!("C{id:02}"), "name": name, "country": country, "since": since,
               "email": mail(format!("office@{}.example", word.to_lowercase()))})
    };
    let mut all: Vec<Value> = (0..CUSTOMERS.len()).map(|number| record(number, number, &|mail| mail)).collect();
    for (id, number) in [(24, 2), (29, 7)] {
        let mut double = record(id, number, &|mail| mail.replace("office", "Office"));
        double["since"] = json!("2025-03-01");
        all.push(double);
    }
    all
}

fn orders() -> Vec<Value> {
    let order = |index: usize| {
        let customer = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 24, 29][index * 7 % 16];
        let placed = format!("2026-{:02}-{:02}", 9 + index * 3 / 84, 1 + index * 5 % 28);
        let status = if index.is_multiple_of(3) || index > 70 { "open" } else { "shipped" };
        json!({"id": 1001 + index, "version": 1 + index % 4, "customer_id": format!("C{customer:02}"), "placed": placed,
               "status": status, "cents": 4_000 + index * 3_733 % 110_000, "touched": index % 27 != 21})
    };
    (0..83).map(order).collect()
}

fn products() -> Vec<Value> {
    let product = |index: usize| json!({"sku": format!("P-{:03}", index * 37 % 100), "stock": index * 13 % 41, "reorder_at": 4 + index % 5});
    (0..34).map(product).collect()
}

fn tickets() -> Vec<Value> {
    let ticket = |index: usize| {
        let owner = match index % 5 {
            0 | 3 => Value::Null,
            1 => json!("ines"),
            2 => json!(["bo", "ada", "tor"][index % 3]),
            _ => json!("tor"),
        };
        let state = if index.is_multiple_of(4) { "closed" } else { "open" };
        json!({"ticket": 501 + index, "state": state, "owner": owner, "version": 1 + index % 3,
               "title": format!("Case {}", 501 + index)})
    };
    (0..37).map(ticket).collect()
}

fn invoices() -> Vec<Value> {
    let invoice = |index: usize| {
        let number = index * 5 % CUSTOMERS.len();
        let paid = (!index.is_multiple_of(4)).then_some("2026-11-02");
        let due = format!("2026-{:02}-{:02}", 10 + index % 3, 10 + index % 18);
        json!({"number": format!("F{}", 300 + index), "customer_id": format!("C{number:02}"),
               "customer": CUSTOMERS[number].0, "cents": 9_950 + index * 2_105, "due": due, "paid": paid})
    };
    (0..44).map(invoice).collect()
}

fn pages() -> Map<String, Value> {
    let page = |version: u64, text: &str, edit: &str| json!({"version": version, "text": text, "edit": edit});
    let mut pages = Map::new();
    pages.insert("support".to_owned(), page(3, "# Support\n\nEngineers: ada, bo, ines, tor\nLead: mia\n", ""));
    let absences =
        "# Absences\n\n- bo: 2026-11-20 to 2026-11-27\n- ines: 2026-11-09 to 2026-11-13\n- mia: 2026-11-23\n";
    pages.insert("absences".to_owned(), page(8, absences, ""));
    // The colleague's edit meets the first write.
    let report = page(5, "# Stock\n\nBelow is what to order.\n", "(Lea: the truck comes on Friday.)\n");
    pages.insert("stock-report".to_owned(), report);
    pages
}
