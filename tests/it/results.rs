//! Results too large to answer with: stored whole, listed without their content, read by agents and scripts.

use serde_json::{Value, json};

use crate::client::Fence;

const VALUE: &str = "{'items': [{'number': n, 'text': 'line %d' % n} for n in range(2000)], 'total': 2000}";

#[tokio::test]
async fn a_large_result_can_be_read_on_in_every_way() {
    let fence = Fence::new();
    let session = fence.serve("").await;
    let answer = session.call("execute", json!({"language": "starlark", "code": VALUE})).await;
    assert!(!answer.is_error && answer.text.len() < 1500, "{}", answer.text);
    for part in [
        "too large for an answer, stored as /results/1/1.json: object {items, total}, ",
        " bytes, 8005 lines\n{\n  \"items\": [\n    {\n      \"number\": 0,\n",
        "read on: cat(\"/results/1/1.json\", lines=\"1-200\"), or forge.results.get(\"/results/1/1.json\")",
    ] {
        assert!(answer.text.contains(part), "no {part:?} in {}", answer.text);
    }
    let text = "'line\\n' * 5000";
    let answer = session.call("execute", json!({"language": "starlark", "code": text})).await;
    assert!(answer.text.contains("stored as /results/2/1.txt: text, 25000 bytes, 5000 lines"), "{}", answer.text);

    let listing = session.call("ls", json!({"path": "/results"})).await.text;
    let lines: Vec<&str> = listing.lines().collect();
    assert!(lines.len() == 2 && lines[1] == "/results/2/1.txt  25000 bytes, 5000 lines", "{listing}");
    assert_eq!(session.call("ls", json!({"path": "/results/2/"})).await.text, lines[1]);
    let read = session.call("cat", json!({"path": "/results/1/1.json", "lines": "3-5"})).await.text;
    assert_eq!(read, "    {\n      \"number\": 0,\n      \"text\": \"line 0\"\n");

    for (language, code) in [
        (
            "javascript",
            "const all = await forge.results.list(); const value = await forge.results.get(all[0].path);
             const text = await forge.results.get('/results/2/1.txt');
             return [all.map((one) => one.path), all[1].bytes, all[1].labels, value.items[1999], value.total, text.length]",
        ),
        (
            "starlark",
            "all = results.list()\nvalue = results.get(all[0]['path'])\ntext = results.get('/results/2/1.txt')\n\
             [[one['path'] for one in all], all[1]['bytes'], all[1]['labels'], value['items'][1999], value['total'], len(text)]",
        ),
    ] {
        let expected = json!([
            ["/results/1/1.json", "/results/2/1.txt"],
            25000,
            [],
            {"number": 1999, "text": "line 1999"},
            2000,
            25000
        ]);
        assert_eq!(session.execute(language, code).await, expected, "{language}");
    }
    for (language, code) in [
        ("javascript", "await forge.results.get('/results/9/1.json')"),
        ("starlark", "results.get('/results/9/1.json')"),
    ] {
        let error = session.execute_err(language, code).await;
        assert!(error.contains("INVALID_ARGS: there is no /results/9/1.json"), "{error}");
        assert!(error.contains("fix: stored results:\n/results/1/1.json"), "{error}");
    }
    let folder = session.call("cat", json!({"path": "/results/1"})).await;
    assert!(folder.is_error && folder.text.contains("/results/1/1.json"), "{}", folder.text);
    session.close().await;
}

/// Concurrent scripts do not share a folder, and each value is whole.
#[tokio::test]
async fn scripts_at_once_store_apart() {
    let fence = Fence::new();
    let session = fence.serve("").await;
    let script = |n: usize| {
        let code = format!("print('x' * 20000)\n['{n}'] * 5000");
        session.call("execute", json!({"language": "starlark", "code": code}))
    };
    let answers = futures::future::join_all((0..6).map(script)).await;
    let mut paths = Vec::new();
    for (n, answer) in answers.iter().enumerate() {
        let stored: Vec<&str> =
            answer.text.split("stored as ").skip(1).filter_map(|rest| rest.split(": ").next()).collect();
        assert_eq!(stored.len(), 2, "{}", answer.text);
        assert!(stored[0].ends_with("/1.json") && stored[1].ends_with("/2.txt"), "{stored:?}");
        assert_eq!(stored[0].rsplit_once('/').map(|p| p.0), stored[1].rsplit_once('/').map(|p| p.0));
        let code = format!("len([one for one in results.get('{}') if one == '{n}'])", stored[0]);
        assert_eq!(session.execute("starlark", &code).await, Value::from(5000));
        paths.extend(stored);
    }
    paths.sort_unstable();
    paths.dedup();
    assert_eq!(paths.len(), 12);
    session.close().await;
}
