//! Subscribes to list changes of servers of revision 2026-07-28, which send none without a subscription.

use std::time::Duration;

use rmcp::model::{ServerNotification, SubscriptionFilter};
use rmcp::service::{Peer, RoleClient};

use crate::events::EventSender;
use base::task::Task;

/// Delay before a subscription that ended is renewed.
const AGAIN: Duration = Duration::from_secs(30);

/// Subscribes, as long as the task lives, to the changes that the server declares; `None` without any, or when its
/// revision notifies without a subscription.
pub(super) fn subscribe(name: &str, peer: &Peer<RoleClient>, events: &EventSender) -> Option<Task> {
    let info = peer.peer_info()?;
    if info.protocol_version.has_initialize() {
        return None;
    }
    let declared = &info.capabilities;
    let mut filter = SubscriptionFilter::new();
    filter.tools_list_changed = declared.tools.as_ref().and_then(|tools| tools.list_changed);
    filter.prompts_list_changed = declared.prompts.as_ref().and_then(|prompts| prompts.list_changed);
    filter.resources_list_changed = declared.resources.as_ref().and_then(|resources| resources.list_changed);
    let wanted = [filter.tools_list_changed, filter.prompts_list_changed, filter.resources_list_changed];
    if !wanted.contains(&Some(true)) {
        return None;
    }
    Some(Task::spawn(follow(name.to_owned(), peer.clone(), filter, events.clone())))
}

async fn follow(name: String, peer: Peer<RoleClient>, filter: SubscriptionFilter, events: EventSender) {
    while !peer.is_transport_closed() {
        match peer.listen(filter.clone()).await {
            Ok(mut subscription) => {
                while let Ok(Some(notification)) = subscription.next().await {
                    match notification {
                        ServerNotification::ToolListChangedNotification(_) => events.tools_changed(),
                        ServerNotification::PromptListChangedNotification(_)
                        | ServerNotification::ResourceListChangedNotification(_) => events.others_changed(),
                        _ => {}
                    }
                }
            }
            // Servers declare more than they do; without a subscription `refresh` and `ttlMs` remain.
            Err(error) => tracing::debug!(server = name, %error, "no subscription to changes"),
        }
        tokio::time::sleep(AGAIN).await;
    }
}
