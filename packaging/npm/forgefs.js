#!/usr/bin/env node
// Starts the forgefs executable of this platform. Arguments, streams, signals and the exit code are the executable's.
"use strict";

const { spawn } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const tty = require("node:tty");

/** Signals that a client or an operator sends to the process that it started: this one. */
const FORWARDED = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"];
/** Those that a terminal sends to the executable too. Twice is an order of its own: it ends forgefs by force. */
const FROM_KEYBOARD = ["SIGINT", "SIGQUIT"];
/** Exit code of an internal error of forgefs. */
const INTERNAL = 4;

const executable = find();
// In place of this process where node can do it: nothing of node is left between the client and forgefs.
if (typeof process.execve === "function" && process.platform !== "win32") {
  process.execve(executable, ["forgefs", ...process.argv.slice(2)]);
} else {
  run(executable);
}

/** Path of the executable in the package of this platform. */
function find() {
  const platform = `${process.platform}-${process.arch}`;
  const name = `@forgefs/${platform}`;
  const known = Object.keys(require("../package.json").optionalDependencies);
  if (!known.includes(name)) {
    fail(
      `no npm package has an executable for ${platform}; there are ${known.map((n) => n.split("/")[1]).join(", ")}`,
      "`cargo install forgefs` builds one",
    );
  }
  let found;
  try {
    found = require.resolve(`${name}/bin/forgefs`);
    fs.accessSync(found, fs.constants.X_OK);
    return found;
  } catch (error) {
    if (found) {
      fail(`${found} cannot be executed: ${error.code}`, "install forgefs again");
    }
    if (isMusl()) {
      fail("the executable needs glibc, and this system has musl", "`cargo install forgefs` builds one for it");
    }
    fail(
      `the package ${name}, which has the executable, is not installed`,
      "npm omits it with --omit=optional, --no-optional and a node_modules copied from another platform: " +
        "install forgefs again without them",
    );
  }
}

/** True on a Linux whose C library is not glibc. */
function isMusl() {
  return process.platform === "linux" && !process.report.getReport().header.glibcVersionRuntime;
}

/** Runs the executable below this process, and ends as it ended. */
function run(executable) {
  const child = spawn(executable, process.argv.slice(2), { argv0: "forgefs", stdio: "inherit" });
  const onTerminal = [0, 1, 2].some((stream) => tty.isatty(stream));
  for (const signal of FORWARDED) {
    process.on(signal, () => {
      if (!onTerminal || !FROM_KEYBOARD.includes(signal)) {
        child.kill(signal);
      }
    });
  }
  child.on("error", (error) => fail(`${executable} does not start: ${error.message}`, "install forgefs again"));
  child.on("exit", (code, signal) => {
    if (!signal) {
      process.exit(code);
    }
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
    // A signal that ends the executable and not node.
    setTimeout(() => process.exit(128 + os.constants.signals[signal]), 100);
  });
}

function fail(message, hint) {
  fs.writeSync(2, `error: ${message}\nhint: ${hint}\n`);
  process.exit(INTERNAL);
}
