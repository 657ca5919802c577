// Writes docs/images/console-VIEW-SCHEME.png and docs/images/gateway-SCHEME.png. The pictures change by this command alone:
//
//   FORGEFS_CONSOLE_URL=… FORGEFS_CONSOLE_READONLY_URL=… node screenshots.mjs [FOLDER]

import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { picture, SIZE } from "./picture.mjs";
import { smaller } from "./png.mjs";
import {
  blank,
  close,
  findRun,
  kept,
  launch,
  main,
  open,
  SCHEMES,
  seeds,
  sessions,
  settled,
  WIDE,
} from "./harness.mjs";

const folder = path.resolve(process.argv[2] ?? path.join(import.meta.dirname, "../../docs/images"));

async function login() {
  const opened = await blank();
  const { page } = opened;
  await page.goto(`${main.page}#${encodeURIComponent(main.token)}`);
  await settled(page);
  sessions.main = await kept(page);
  await opened.close();
}

await mkdir(folder, { recursive: true });
await launch();
await login();
const { tool } = await seeds();
const run = process.env.FORGEFS_SCREENSHOT_RUN ?? (await findRun("outcome=refused"))?.id;
const views = [
  ["now", "#/now"],
  ["run", `#/runs/${encodeURIComponent(run)}`],
  ["approvals", "#/approvals"],
  ["catalog", `#/catalog?path=${encodeURIComponent(tool)}`],
  ["spending", "#/spending?hours=24&by=server"],
];
for (const [name, hash] of views) {
  for (const scheme of SCHEMES) {
    const opened = await open(hash, { scheme, size: WIDE });
    const { page } = opened;
    await page.locator("header").getByText("live", { exact: true }).waitFor();
    await page.evaluate(() => document.activeElement?.blur());
    const picture = smaller(await page.screenshot({ caret: "hide", animations: "disabled" }));
    await writeFile(path.join(folder, `console-${name}-${scheme}.png`), picture);
    console.log(`console-${name}-${scheme}.png ${picture.length} bytes`);
    await opened.close();
  }
}
for (const scheme of SCHEMES) {
  const opened = await blank({ scheme, size: SIZE });
  await opened.page.setContent(await picture(scheme));
  const drawn = smaller(await opened.page.screenshot());
  await writeFile(path.join(folder, `gateway-${scheme}.png`), drawn);
  console.log(`gateway-${scheme}.png ${drawn.length} bytes`);
  await opened.close();
}
await close();
