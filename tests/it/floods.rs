//! Scripts that use much of what they may use: they are no attack, and succeed.

use serde_json::json;

use crate::client::Fence;
use crate::faulty::samples;

#[tokio::test]
async fn as_many_lines_as_the_limit_of_output_has_room_for_are_captured() {
    let fence = Fence::new();
    let session = fence.serve("").await;
    for (language, code, shown) in [
        (
            "javascript",
            "for (let i = 0; i < 120000; i++) console.log('x'); return 'done'",
            "239999 bytes, 120000 lines",
        ),
        ("javascript", "for (let i = 0; i < 200000; i++) console.log(''); return 'done'", "--- output"),
        ("starlark", "def f():\n    for i in range(120000):\n        print('x')\nf()\nresult = 'done'", "120000 lines"),
    ] {
        let answer = session.call("execute", json!({"language": language, "code": code})).await;
        assert!(!answer.is_error && answer.text.starts_with("done"), "{language}: {}", answer.text);
        assert!(answer.text.contains(shown), "{language}: no {shown:?} in {}", answer.text);
    }
    session.close().await;
}

#[tokio::test]
async fn a_script_may_make_all_its_calls_at_once() {
    let fence = Fence::new();
    let config = format!("{}\n[sandbox.limits]\ncalls = 3000\ncpu = \"60s\"\nwall = \"15m\"\n", samples());
    let session = fence.serve(&config).await;
    session.ready(&["people"]).await;
    let code = "const calls = Array.from({ length: 2500 }, () => people.list_teams({}));
                return (await Promise.all(calls)).length";
    assert_eq!(session.execute("javascript", code).await, json!(2500));
    session.close().await;
}
