// All tests of the console in one process: a token is good for one login, so they share its session.

import { after, before } from "node:test";
import { close, launch } from "./harness.mjs";

before(launch);
after(close);

const { signOut } = await import("./signin.mjs");
await import("./look.mjs");
await import("./keyboard.mjs");
await import("./hostile.mjs");
await import("./runs.mjs");
await import("./live.mjs");
await import("./catalog.mjs");
await import("./approvals.mjs");
await import("./spending.mjs");
signOut();
