use std::path::Path;

use futures::future::join_all;

use super::*;
use state::Embedded;

const RUN: &str = "000000000001";

fn store(folder: &Path) -> Arc<Approvals> {
    Arc::new(Approvals {
        // Each has a state of its own, as in processes of their own.
        state: Arc::new(Embedded::default()),
        folder: folder.join("approvals"),
        wait: Some(Duration::from_secs(60)),
        notify: Vec::new(),
        forget: Duration::ZERO,
    })
}

fn call(args_hash: &str) -> Call {
    let of = |text: &str| text.to_owned();
    Call {
        client: of("local"),
        chain: of(RUN),
        server: of("bank"),
        origin: of("o"),
        tool: of("pay"),
        definition: of("d"),
        args_hash: of(args_hash),
    }
}

fn choice(is_allowed: bool) -> Choice<'static> {
    Choice { is_allowed, by: "a person", reason: None }
}

async fn asked(approvals: &Approvals, call: Call) -> Approval {
    let id = id(&call, 0);
    let asker = Asker { client_name: None, session: "s".to_owned(), run: RUN.to_owned() };
    let approval = Approval {
        version: VERSION,
        id,
        asker,
        call,
        label: "bank.pay".to_owned(),
        arguments: json!({"n": 1.50, "big": 12_345_678_901_234_567_890_u64}),
        question: "may it?".to_owned(),
        at_ms: now_ms(),
        until_ms: now_ms() + 60_000,
        holds_ms: 60_000,
        ..Approval::default()
    };
    approvals.ask(approval).await.expect("kept")
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_that_use_an_approval_at_once_one_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = store(folder.path());
    let id = asked(&here, call("a")).await.id;
    assert!(here.use_up(&id, RUN, 1).await.is_err(), "nobody has allowed it");
    here.decide(&id, choice(true)).await.expect("it waits");
    let using = (0..20).map(|op| {
        let (there, id) = (store(folder.path()), id.clone());
        tokio::spawn(async move { there.use_up(&id, RUN, op).await.is_ok() })
    });
    let used: Vec<bool> = join_all(using).await.into_iter().map(|used| used.expect("no panic")).collect();
    assert_eq!(used.iter().filter(|used| **used).count(), 1);
    let op = used.iter().position(|used| *used).expect("one") as u64;
    // An approval that another call used is not given back.
    here.give_back(&id, RUN, op + 1).await;
    assert_eq!(here.get(&id).await.expect("there").standing(now_ms()), Standing::Used);
    here.give_back(&id, RUN, op).await;
    here.use_up(&id, RUN, 30).await.expect("it was given back");
    assert!(here.decide(&id, choice(false)).await.is_err(), "it is used up");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_that_ask_the_same_one_question_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let asking = (0..10).map(|_| {
        let there = store(folder.path());
        tokio::spawn(async move { asked(&there, call("a")).await.id })
    });
    let ids: Vec<String> = join_all(asking).await.into_iter().map(|asked| asked.expect("no panic")).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    let here = store(folder.path());
    let known = here.known(&call("a"), &[], (RUN, SCRIPT)).await;
    assert!(matches!(known, Ok(Known::Kept(approval)) if approval.standing(now_ms()) == Standing::Waits));
    assert_eq!(here.list().await.expect("listed").len(), 1);
}

#[tokio::test]
async fn what_is_over_is_removed_and_what_waits_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = store(folder.path());
    let over = asked(&here, call("a")).await;
    here.decide(&over.id, choice(false)).await.expect("it waits");
    let mut old = here.get(&over.id).await.expect("there");
    let before = old.clone();
    old.until_ms = 1;
    assert!(here.swap(&over.id, Some(&before), Some(&old)).await.expect("written"));
    assert!(!here.swap(&over.id, Some(&before), None).await.expect("compared"), "it was changed meanwhile");
    let waits = asked(&here, call("b")).await;
    let left: Vec<String> = here.list().await.expect("listed").into_iter().map(|approval| approval.id).collect();
    assert_eq!(left, [waits.id]);
}

#[tokio::test]
async fn a_damaged_file_is_named_and_allows_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = store(folder.path());
    let approval = asked(&here, call("a")).await;
    let file = here.folder.join(&approval.id).with_extension("json");
    let whole = std::fs::read_to_string(&file).expect("a file");
    let newer = whole.replacen("\"version\":1", "\"version\":2", 1);
    for text in ["", "{", "[]", &whole[..whole.len() / 2], &newer, &whole.replacen("\"id\":\"", "\"id\":\"0", 1)] {
        std::fs::write(&file, text).expect("written");
        let error = here.known(&call("a"), &[], (RUN, SCRIPT)).await.expect_err("damaged");
        assert!(error.message.contains(&approval.id) && error.code == ErrorCode::Internal, "{error}");
        assert!(here.decide(&approval.id, choice(true)).await.is_err());
    }
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(&file, &whole).expect("written");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).expect("a mode");
    let error = here.get(&approval.id).await.expect_err("others may change it");
    assert!(error.message.contains("others may change it"), "{error}");
}

/// The script that asks.
const SCRIPT: &str = "s";

/// The approval that allows a call.
async fn allowing(approvals: &Approvals, args: &str) -> Option<Approval> {
    match approvals.known(&call(args), &[], (RUN, SCRIPT)).await {
        Ok(Known::Kept(approval)) => Some(*approval).filter(|kept| kept.standing(now_ms()) == Standing::Allowed),
        _ => None,
    }
}

async fn is_allowed(approvals: &Approvals, args: &str) -> bool {
    allowing(approvals, args).await.is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_for_a_plan_covers_as_many_calls_as_it_shows_of_one_script() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = store(folder.path());
    let (first, second) = (asked(&here, call("a")).await, asked(&here, call("b")).await);
    let further = || Further { call: call(""), label: "bank.pay".to_owned(), reasons: Vec::new(), repeats: false };
    assert!(!is_allowed(&here, "c").await);
    here.decide(&second.id, choice(false)).await.expect("it waits");
    let waits = asked(&here, call("w")).await;
    // Two places in the text, of which one waits.
    let places = || vec![further(), further()];
    let allowed = here.allow_plan(&first.id, "a person", places(), SCRIPT).await.expect("it waits");
    assert_eq!(allowed.decision.map(|decision| decision.scope), Some(Scope::Plan));
    assert!(here.allow_plan(&first.id, "another", places(), SCRIPT).await.is_err(), "it is decided once");
    assert!(is_allowed(&here, "a").await && is_allowed(&here, "c").await, "the one that waited, and the other place");
    assert!(!is_allowed(&here, "b").await, "what was denied stays so");
    assert_eq!(here.get(&waits.id).await.expect("kept").standing(now_ms()), Standing::Waits, "nobody saw it");
    let edited = here.known(&call("c"), &[], (RUN, "edited")).await;
    assert!(matches!(edited, Ok(Known::Nothing(_))), "another script asks anew");
    let place = allowing(&here, "c").await.expect("allowed");
    here.use_up(&place.id, RUN, 2).await.expect("once");
    assert!(!is_allowed(&here, "d").await, "the plan shows no third call");
    // A further decision gives no place twice.
    let more = asked(&here, call("e")).await;
    here.allow_plan(&more.id, "a person", places(), SCRIPT).await.expect("it waits");
    assert!(is_allowed(&here, "e").await && !is_allowed(&here, "f").await, "both places are spent");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_for_a_run_covers_its_other_calls_until_it_is_taken_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = store(folder.path());
    let (first, waits) = (asked(&here, call("a")).await, asked(&here, call("b")).await);
    here.allow_run(&first.id, "a person").await.expect("it waits");
    assert_eq!(here.get(&waits.id).await.expect("kept").standing(now_ms()), Standing::Allowed, "it waited as well");
    for args in ["d", "f"] {
        let all = allowing(&here, args).await.expect("allowed");
        here.use_up(&all.id, RUN, 3).await.expect("any number of times");
    }
    let other = ["another rule".to_owned()];
    assert!(
        matches!(here.known(&call("d"), &other, (RUN, SCRIPT)).await, Ok(Known::Nothing(_))),
        "another rule asks anew"
    );
    for strange in [
        Call { chain: "000000000009".to_owned(), ..call("d") },
        Call { client: "other".to_owned(), ..call("d") },
        Call { definition: "d2".to_owned(), ..call("d") },
        Call { origin: "o2".to_owned(), ..call("d") },
    ] {
        let known = here.known(&strange, &[], (RUN, SCRIPT)).await;
        assert!(matches!(known, Ok(Known::Nothing(_))), "{strange:?} asks anew");
    }
    here.use_up(&first.id, RUN, 4).await.expect("it is allowed");
    let used = here.decide(&first.id, choice(false)).await.expect_err("it is used up");
    assert!(
        used.message.contains("taken back") && !is_allowed(&here, "d").await,
        "a denial takes back the rest: {used}"
    );
    // What was taken back can be allowed again, for what its question says.
    let further = id(&call(""), 0);
    here.decide(&further, choice(true)).await.expect("it is denied");
    for op in [5, 6] {
        here.use_up(&further, RUN, op).await.expect("any number of times");
    }
    here.give_back(&first.id, RUN, 4).await;
    here.decide(&first.id, choice(false)).await.expect("it was not used");
    assert!(!is_allowed(&here, "d").await, "it takes back the rest once more");
    // Also where the call itself was allowed alone meanwhile.
    here.decide(&first.id, choice(true)).await.expect("it was denied");
    here.decide(&further, choice(true)).await.expect("it was denied");
    here.decide(&first.id, choice(false)).await.expect("it was not used");
    assert!(!is_allowed(&here, "d").await, "it takes back the rest again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_for_more_that_fails_leaves_the_call_waiting() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = store(folder.path());
    let first = asked(&here, call("a")).await;
    let places = |tools: &[&str]| {
        let of = |tool: &&str| Call { tool: (*tool).to_owned(), ..call("") };
        let further = |call| Further { call, label: "bank".to_owned(), reasons: Vec::new(), repeats: true };
        tools.iter().map(of).map(further).collect::<Vec<_>>()
    };
    // The second one cannot be kept.
    let broken = here.folder.join(id(&places(&["list"])[0].call, 0)).with_extension("json");
    std::fs::create_dir(&broken).expect("a folder");
    here.allow_plan(&first.id, "a person", places(&["pay", "list"]), SCRIPT).await.expect_err("it is not kept");
    assert_eq!(here.get(&first.id).await.expect("kept").standing(now_ms()), Standing::Waits);
    assert!(!is_allowed(&here, "c").await, "the first place is taken back");
    std::fs::remove_dir(&broken).expect("removed");
    here.allow_plan(&first.id, "a person", places(&["pay", "list"]), SCRIPT).await.expect("it waits");
    assert!(is_allowed(&here, "c").await);
    // A place whose file has no room for one byte more cannot be taken back: then the call is denied.
    let second = asked(&here, call("b")).await;
    let denied = here.folder.join(id(&places(&["pay"])[0].call, 0)).with_extension("json");
    let denied = usize::try_from(std::fs::metadata(denied).expect("a file").len()).expect("a size");
    let mut full = places(&["pay", "move"]);
    full[0].label.push_str(&"x".repeat(limits::APPROVAL_FILE.max + (16 << 10) + 1 - denied));
    std::fs::create_dir(here.folder.join(id(&full[1].call, 0)).with_extension("json")).expect("a folder");
    here.allow_plan(&second.id, "a person", full, SCRIPT).await.expect_err("it is not kept");
    assert_eq!(here.get(&second.id).await.expect("kept").standing(now_ms()), Standing::Denied);
}
