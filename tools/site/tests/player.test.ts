/** The recorded runs, step by step, in a Chromium: on the front page and on each lesson's. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import type { Page } from "playwright-core";
import { promptOf, type Run } from "../../docs/runs.ts";
import { ROOT } from "../.vitepress/files.ts";
import { hasChinese, PHONE, pages, scrollTo, visit } from "./browser.ts";

const lessons = pages.filter((page) => /^s\d\d_/.test(page));
const S06 = "s06_context_compact.html";
const line = (page: Page) => page.innerText(".player .script .marked");
const messages = (page: Page) => page.locator(".player li:is(.user, .assistant):visible").count();
const runOf = (path: string): Run =>
  JSON.parse(readFileSync(join(ROOT, `tools/docs/runs/${path.slice(0, 3)}.json`), "utf8"));
const isAt = async (page: Page) =>
  (await page.innerText(".player .count")).split(" / ").map(Number) as [number, number];
/** Goes from the first step to the last, in the page itself. @returns what was looked at, at each step */
const walk = <Seen>(page: Page, look: (player: Element) => Seen): Promise<Seen[]> =>
  page.locator(".player").evaluate((player, source) => {
    const look: (player: Element) => Seen = new Function(`return ${source}`)();
    const count = player.querySelector(".count");
    const steps = Number(count?.textContent?.split(" / ")[1]);
    const seen: Seen[] = [];
    for (let step = 1; step <= steps; step++) {
      const key = step === 1 ? "Home" : "ArrowRight";
      player.dispatchEvent(new KeyboardEvent("keydown", { key }));
      if (count?.textContent !== `${step} / ${steps}`) throw new Error(`${count?.textContent} after ${step}`);
      seen.push(look(player));
    }
    return seen;
  }, look.toString());

test("on the first screen of the front page are the lessons, and the run of s01 in its middle", async () => {
  for (const path of hasChinese ? ["index.html", "zh/index.html"] : ["index.html"])
    await visit(path, { viewport: { width: 1280, height: 800 } }, async (page) => {
      for (const part of [".vp-doc h1", ".vp-doc table", ".player .script", ".player .controls"]) {
        const { y = -1, height = 0 } = (await page.locator(part).first().boundingBox()) ?? {};
        assert.ok(y > 0 && y + height <= 800, `${path}: ${part} ends at ${y + height}`);
      }
      assert.equal((await isAt(page))[0], 5);
      assert.match(await line(page), /runCall\(call/);
      assert.match(await page.innerText(".player .script"), /function agentLoop/);
    });
});

test("a step shows the line that runs, its command and what it changes, by buttons and by arrow keys, back and forth", async () => {
  await visit("s01_agent_loop.html", {}, async (page) => {
    assert.match(await line(page), /function agentLoop/);
    assert.equal(await messages(page), 1);
    await page.click('.player [data-do="next"]');
    assert.match(await line(page), /await callModel/);
    assert.equal(await messages(page), 2);
    assert.equal(await page.locator(".player li.pending:visible").count(), 1);
    await page.keyboard.press("ArrowRight");
    assert.match(await line(page), /messages\.push\(\{ role: "assistant"/);
    assert.equal(await page.locator(".player li.pending:visible").count(), 0);
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowRight");
    assert.match(await line(page), /runCall\(call/);
    assert.match(
      await page.innerText(".player .says"),
      /runs bash echo 'console\.log\("Hello, World!"\);' > hello\.mjs/,
    );
    await page.click('.player [data-do="previous"]');
    await page.click('.player [data-do="previous"]');
    assert.match(await line(page), /role: "assistant"/);
    await page.keyboard.press("End");
    assert.match(await line(page), /if \(calls\.length === 0\) return/);
    assert.equal(await messages(page), 6);
    assert.match(await page.innerText(".player .messages"), /hello\.mjs is there; it printed: Hello, World!/);
    await page.keyboard.press("Home");
    assert.equal(await messages(page), 1);
  });
});

/** What the line that is marked says, by the first word of the step's name. */
const LINES: Record<string, RegExp> = {
  start: /function agentLoop|(push\(|add\(messages, )\{ role: "user", content: request \}/,
  check: /await compactIfNeeded\(/,
  call: /const reply = await call(Model|OrCompact)\(/,
  reply: /(messages\.push\(|add\(messages, )\{ role: "assistant", content: reply\.content/,
  if: /if \(calls\.length === 0\) return/,
  run: /results\.push\(await runCall\(call|if \(calls\.length === 0\)/, // of rounds that are one step, the branch
  child: /results\.push\(await runCall\(call/,
  back: /results\.push\(await runCall\(call/,
  killed: /results\.push\(await runCall\(call/,
  remind: /results\.push\(REMINDER\)/,
  results: /(messages\.push\(|add\(messages, )\{ role: "user", content: results/,
  past: /if \(isPastLimit\(\)\) clearOldResults\(/,
  cold: /if \(isCold\) clearOldResults\(/,
  cleared: /replaceHistory\(messages, cleared, /,
  before: /await autoCompact\(messages, "auto"/,
  asked: /if \(asked\) await autoCompact\(messages, "tool"/,
  summary: /await callModel\(\[\.\.\.answered/,
  after: /replaceHistory\(messages, compacted\(/,
  pause: /const COLD = 300/,
  resume: /replaceHistory\(messages, history, "resume"/,
};

describe("in each lesson", () => {
  const news: Record<string, RegExp> = {
    s01: /tool call bash/,
    s02: /tool call edit_file/,
    s03: /reminder\s+<reminder>/,
    s04: /a subagent with messages of its own.*The test script runs/s,
    s05: /tool call load_skill.*<skill name="code-review">/s,
    s06: /Conversation compressed/,
  };
  for (const path of lessons)
    test(`${path}: what is new, the branch of each reply, and what exactly the next model call sends`, async () => {
      await visit(path, {}, async (page) => {
        const seen = await walk(page, (player) => ({
          name: player.getAttribute("data-name") ?? "",
          line: player.querySelector(".script .marked")?.textContent ?? "",
          value: player.querySelector(".marked")?.getAttribute("data-value"),
          says: player.querySelector(".says span")?.textContent ?? "",
          messages: player.querySelector<HTMLElement>(".messages")?.innerText ?? "",
          bar: [".total", ".counts .read + b", ".counts .fresh + b"].map(
            (part) => player.querySelector(part)?.textContent ?? "",
          ),
        }));
        assert.ok(
          seen.some(({ messages }) => news[path.slice(0, 3)]?.test(messages)),
          seen.at(-1)?.messages,
        );
        const { calls } = runOf(path);
        for (const { name, line } of seen) assert.match(line, LINES[name.split(" ")[0] ?? ""] ?? /never/, name);
        const calling = /(?<!model |tool )\bcalls?\b(?! agentLoop)/; // of which kind a call is, is always said
        for (const { says } of seen) assert.doesNotMatch(says, calling);
        const values = new Set(seen.flatMap(({ line, value }) => (/if \(calls/.test(line) ? [value] : [])));
        assert.deepEqual([...values], path === S06 ? ["return"] : ["go on", "return"]);
        const bars = calls.map(({ usage }) => {
          const read = usage.cache_read_input_tokens;
          const fresh = usage.cache_creation_input_tokens + usage.input_tokens;
          return [`${read + fresh} tokens`, `${read}`, `${fresh}`];
        });
        const plain = (bar: string[]) => bar.map((text) => text.replace(",", ""));
        const sent = seen.filter(({ name }) => /^(call|summary)/.test(name));
        const inDetail = sent.map(({ bar }) => bars.findIndex((each) => `${each}` === `${plain(bar)}`));
        assert.ok(inDetail.length > 0 && !inDetail.includes(-1), `${inDetail}`);
        const shown = new Set(seen.map(({ bar }) => `${plain(bar)}`));
        if (calls.length <= 6) for (const bar of bars) assert.ok(shown.has(`${bar}`), `${bar}`);
      });
    });
});

describe("in s06", async () => {
  const seen = await visit(S06, {}, (page) =>
    walk(page, (player) => {
      const shown = [...player.querySelectorAll<HTMLElement>("li")].filter((each) => each.checkVisibility());
      const [end, limit] = [".meter .fresh", ".meter .limit"].map((part) =>
        player.querySelector(part)?.getBoundingClientRect(),
      );
      return {
        name: player.getAttribute("data-name") ?? "",
        says: player.querySelector(".says")?.textContent ?? "",
        struck: shown.filter((each) => each.matches(".struck:not(.event)")).length,
        pending: shown.flatMap((each) => (each.matches(".pending") ? each.innerText : [])).join("\n"),
        events: shown.flatMap((each) => (each.matches(".event") ? each.innerText : [])),
        messages: shown.filter((each) => !each.matches(".event, .child")).length,
        text: player.querySelector<HTMLElement>(".messages")?.innerText ?? "",
        isAhead: player.querySelectorAll(".request.ahead").length,
        beyond: (end?.right ?? 0) - (limit?.left ?? 0),
        end: Math.round(end?.right ?? 0),
        before: Math.round(player.querySelector(".meter .without")?.getBoundingClientRect().right ?? 0),
        colours: shown.flatMap((each) => {
          if (each.matches(".event, .pending")) return [];
          const read = getComputedStyle(player.querySelector(".counts .read") ?? player).backgroundColor;
          const colour = getComputedStyle(each, "::before").backgroundColor;
          return colour === read ? "read" : colour === "rgba(0, 0, 0, 0)" ? "none" : "new";
        }),
        label: player.querySelector(".label")?.textContent ?? "",
        cache: player.querySelector(".cache")?.textContent ?? "",
        isWarm: player.querySelector(".request")?.matches(".warm"),
        fresh: player.querySelector(".counts .fresh + b")?.textContent ?? "",
        unstruck: [...player.querySelectorAll<HTMLElement>(".struck .block")]
          .filter((each) => each.checkVisibility() && getComputedStyle(each).textDecorationLine !== "line-through")
          .map((each) => each.innerText),
        disk: shown.flatMap((each) => (each.matches(".child") ? each.innerText : [])).join("\n"),
      };
    }),
  );
  /** The steps from the first, or a later one, of a name on. */
  const from = (name: string, which = 0) => {
    const places = seen.flatMap((each, i) => (each.name === name ? [i] : []));
    const steps = seen.slice(places[which]);
    assert.ok(places[which] !== undefined && steps.length > 3, name);
    type Seen = (typeof seen)[0];
    return steps as [Seen, Seen, Seen, Seen, Seen, Seen];
  };

  test("the layers act in the order of the page, then the end in the middle of a tool call, and a cold cache", async () => {
    const layers = /past|before|asked|killed|pause|resume|cold/;
    const names = seen.map(({ name }) => name).filter((name) => layers.test(name));
    assert.deepEqual(names, ["past", "before", "asked", "killed", "pause", "resume", "cold"]);
  });

  test("what would be sent is drawn hatched, beyond the limit, until a layer has acted", () => {
    for (const name of ["past", "before"]) {
      const [at, ...later] = from(name);
      assert.ok(at.isAhead && at.beyond > 0, `${name}: ${at.beyond}`);
      const after = later.find((each) => /cleared|after/.test(each.name));
      assert.ok(Number(after?.beyond) < 0, `after ${name}: ${after?.beyond}`);
    }
  });

  test("after it the bar is drawn inside of what it was, until the next model call", () => {
    for (const [name, which] of [["past"], ["cold"], ["summary", 0], ["summary", 1]] as const) {
      const [at, after, ...later] = from(name, which);
      const estimated = seen.slice(0, seen.indexOf(after)).findLast(({ isAhead }) => isAhead);
      assert.deepEqual([at.before, after.before], [0, estimated?.end], name);
      assert.match(after.label, /\(was [\d,]+\):$/);
      const next = later.find((each) => /^(run|reply|if|killed)/.test(each.name));
      assert.equal(next?.before, 0, name);
    }
  });

  test("a message has the colour of the bar: what was sent is in the cache, until it is rewritten or the cache is cold", () => {
    const count = ({ colours }: (typeof seen)[0]) =>
      ["read", "new"].map((part) => colours.filter((each) => each === part).length);
    const [past, cleared] = from("past");
    assert.deepEqual(count(past), [past.messages - 2, 2], "the last round is new");
    assert.deepEqual(count(cleared), [1, past.messages - 1], "the request is as it was");
    for (const which of [0, 1]) assert.deepEqual(count(from("after", which)[0]), [1, 4]);
    const [summary] = from("summary");
    assert.deepEqual(count(summary), [summary.messages - 3, 0], "the open round and the summary are in no model call");
    for (const each of seen) {
      const [read = 0, fresh = 0] = count(each);
      if (each.cache === "The cache is empty") assert.equal(read, 0, each.name);
      if (each.fresh === "–") assert.equal(fresh, 0, each.name);
    }
  });

  test("layer 1: the results that go are struck out, then a line each; all else stays", () => {
    for (const name of ["past", "cold"]) {
      const [at, cleared, next] = from(name);
      const lines = cleared.text.match(/\[Previous: used read_file\]/g) ?? [];
      assert.equal(at.struck, lines.length);
      assert.ok(lines.length === (name === "past" ? 1 : 4) && !at.text.includes("[Previous"), `${lines.length}`);
      assert.deepEqual([cleared.messages, cleared.struck], [at.messages, 0]);
      assert.equal(/No cached tokens are lost/.test(cleared.says), name === "cold");
      assert.equal(next.name, name === "past" ? "cleared price" : "run bash");
    }
    const [past, cleared, , next] = from("past");
    assert.ok(/^thinking$/m.test(past.text) && !/^text$/m.test(past.text));
    assert.ok(/^text$/m.test(cleared.text) && !/^thinking$/m.test(cleared.text));
    const kinds = ["thinking", "text"].map((kind) => next.text.match(new RegExp(`^${kind}$`, "gm"))?.length);
    assert.deepEqual(kinds, [2, 6], "the replies of the two rounds that follow begin with thinking");
  });

  test("what goes is struck out as a whole; with old results their reminder stays", () => {
    assert.deepEqual(from("past")[0].unstruck, []);
    assert.match(from("cold")[0].unstruck.join(), /^reminder$/);
    const [, second] = seen.filter(({ name }) => name === "summary");
    assert.equal(second?.struck, Number(second?.messages) - 4, "all but request, open round and the summary to come");
    assert.deepEqual(from("summary")[0].unstruck, []);
  });

  test("layer 2 is seen before, while the summary is written, and after", () => {
    const [before, summary, after] = from("before");
    assert.equal(before.struck, 0);
    assert.match(summary.pending, /Conversation compressed/);
    assert.equal(summary.struck, before.messages - 3, "all but the request and the open round");
    assert.equal(after.messages, 5);
    assert.ok(/path: notes\/16\.txt/.test(after.text), "the open round");
    assert.ok(/<file path="notes\/15\.txt">/.test(after.text), "a file that is put back");
    assert.match(after.text, /Noted notes\/10.txt: 10\n(.*\n)*Noted notes\/15.txt: 15\n\s*file/, "the whole summary");
  });

  test("what a compaction gains and costs is what was recorded: of the prompts in the cache the first still begins the next", () => {
    const { calls } = runOf(S06);
    const number = (tokens: number) => tokens.toLocaleString("en-US");
    const compactions = calls.flatMap(({ compacted, reply, resumed }, i) => (compacted && reply && !resumed ? i : []));
    const prices = seen.filter(({ name }) => name.endsWith(" price")).map(({ says }) => says);
    assert.equal(prices.length, 3);
    const first = promptOf(calls[0]?.usage as Run["calls"][0]["usage"]);
    for (const [i, says] of prices.entries()) {
      const at = compactions[i] ?? 0;
      const { estimate } = calls[at]?.estimate ? (calls[at] ?? {}) : (calls[at - 1] ?? {});
      const { usage } = calls[at] as Run["calls"][0];
      assert.ok(says.startsWith(`The gain: ${number(Number(estimate?.tokens) - promptOf(usage))} tokens`), says);
      assert.equal(usage.cache_read_input_tokens, first);
      assert.match(
        says,
        new RegExp(`matches only up to (the request|there): ${number(promptOf(usage) - first)} are new`),
      );
      assert.ok(says.includes(i > 0 ? "The price: that model call" : "The price: all thinking is sent as text"), says);
    }
    const [, , , second] = seen;
    assert.match(second?.says ?? "", /only 156 tokens are new\. They cost 25 times as much/);
    assert.equal(second?.fresh, "156");
    assert.match(
      readFileSync(join(ROOT, "docs/s06_context_compact.md"), "utf8"),
      /for 25 times the price of reading it/,
    );
  });

  test("what layer 1 saves, or would save, is what its code takes away", () => {
    const saved = runOf(S06).calls.flatMap(({ estimate }) => estimate?.saved ?? []);
    const told = ["past", "before", "cold"].map((name) =>
      Number(/about (\d+),(\d+)[.,:]/.exec(from(name)[0].says)?.slice(1).join("")),
    );
    assert.deepEqual(
      told,
      [saved[0], saved[1], saved[3]].map((tokens) => Math.round(Number(tokens) / 100) * 100),
    );
  });

  test("layer 1 waits for 40 % of the limit, as the captions say", () => {
    const script = readFileSync(join(ROOT, "agents/s06_context_compact.ts"), "utf8");
    assert.match(script, /MIN_SAVINGS = 0\.4 \* THRESHOLD;/);
    const told = seen.filter(({ says }) => says.includes("40 % of the limit")).map(({ name }) => name);
    assert.deepEqual(told, ["past", "before"]);
  });

  test("the cache is always in sight: what was sent last, until a pause; and without a model call nothing is new", () => {
    const prompts = runOf(S06).calls.map(({ usage }) => `Now in the cache: ${promptOf(usage).toLocaleString("en-US")}`);
    let isCold = true;
    for (const { name, cache, isWarm, label, fresh } of seen) {
      if (name === "pause") isCold = true;
      if (/^(reply|run)/.test(name)) isCold = false;
      const isAfter = label.includes("(was"); // what a compaction leaves isn't in the cache yet
      const known = isAfter || label.startsWith("Last") ? [""] : isCold ? ["The cache is empty"] : prompts;
      assert.ok(known.includes(cache), `${name}: ${cache}`);
      assert.equal(isWarm, !isCold && !label.startsWith("Last"), `${name}: what the last call sent isn't told apart`);
      assert.equal(fresh === "–", label.startsWith("No model call"), `${name}: ${fresh}`);
      if (/killed|pause|resume/.test(name)) assert.equal(fresh, "–");
    }
  });

  test("a command kills the program, the cache gets cold, and a new program has all from the transcript, and a result", () => {
    const before = seen[seen.findIndex(({ name }) => name === "killed") - 1];
    const [killed, pause, resume] = from("killed");
    assert.match(killed.says, /kills the program.*all messages are gone.*still on disk.*kill -9/);
    assert.match(pause.says, /300 seconds.*cache has expired: it is cold/);
    for (const { messages, events, disk } of [killed, pause]) {
      assert.equal(messages, 0);
      assert.equal(events.at(-1), "On disk, the transcript ends with:");
      assert.match(disk, /Read every file in notes.*thinking.*kill -9 \$PPID$/s);
      assert.doesNotMatch(disk, /it may have run/);
    }
    assert.equal(resume.disk, "");
    assert.match(resume.events.at(-1) ?? "", /npm run offline -- s06 -y --resume$/);
    assert.equal(resume.messages, Number(before?.messages) + 2);
    assert.match(resume.text, /kill -9 \$PPID\s+user\s+tool result\s+\(interrupted; it may have run\)$/);
    assert.doesNotMatch(resume.text, /^thinking$/m);
  });
});

describe("at each step", () => {
  const screens = [
    { width: 1440, height: 900 },
    { width: 1280, height: 800 },
    { width: 1000, height: 800 },
    { width: 390, height: 844 },
  ];
  for (const path of [...lessons, ...(hasChinese ? [`zh/${S06}`] : [])])
    test(`${path}: what came last and what goes is in sight, and nothing moves or is cut`, async () => {
      await visit(path, { reducedMotion: "reduce" }, async (page) => {
        for (const viewport of screens) {
          await page.setViewportSize(viewport);
          const seen = await walk(page, (player) => {
            const shown = [...player.querySelectorAll("li")].filter((each) => each.checkVisibility());
            const last = shown.findLast((each) => !each.matches(".brief, .old, .event")) ?? shown.at(-1);
            const parts = [".script", ".says", ".request", ".messages", ".controls", ".script .marked"].flatMap(
              (part) => player.querySelector(part) ?? [],
            );
            const [script, says, request, messages, controls, marked, newest] = [...parts, last ?? player].map(
              (part) => {
                const { top, bottom, height } = part.getBoundingClientRect();
                const isCut = part.scrollHeight > part.clientHeight;
                return { top: Math.round(top - player.getBoundingClientRect().top), bottom, height, isCut };
              },
            );
            if (!script || !says || !request || !messages || !controls || !marked || !newest)
              throw new Error("a part is missing");
            const least = Math.min(newest.height, messages.height / 2); // of a long one its beginning
            const end = shown.at(-1)?.getBoundingClientRect() ?? newest;
            const struck = shown.filter((each) => each.matches(".struck:not(.event)"));
            const inSight = struck.filter((each) => {
              const { top, bottom } = each.getBoundingClientRect();
              return top >= messages.bottom - messages.height - 1 && bottom <= messages.bottom + 1;
            });
            return {
              name: player.getAttribute("data-name") ?? "",
              places: [script, says, request, messages, controls].map(({ top, height }) => `${top} ${height}`),
              isSeen: newest.top >= messages.top - 1 && newest.top + least <= messages.top + messages.height + 1,
              isEndSeen: end.bottom <= messages.bottom + 1 || end.bottom - newest.top > messages.height - 1,
              isMarkSeen: marked.top >= script.top - 1 && marked.top + 18 <= script.top + script.height,
              isCut: says.isCut,
              share: struck.length === 0 ? 1 : inSight.length / struck.length,
            };
          });
          for (const [i, { name, places, isSeen, isEndSeen, isMarkSeen, isCut, share }] of seen.entries()) {
            const step = `${viewport.width}: step ${i + 1}, ${name}`;
            assert.deepEqual(places, seen[0]?.places, step);
            assert.deepEqual([isSeen, isEndSeen, isMarkSeen, isCut], [true, true, true, false], step);
            const least = viewport.width < 1280 ? 0 : /past|cold/.test(name) ? 1 : name === "summary" ? 0.5 : 0;
            assert.ok(share >= least, `${step}: of what is struck out ${share} is in sight`);
          }
        }
      });
    });
});

test("a prompt that is too short for the cache is not said to be in it; a run without a limit says less of it", async () => {
  await visit("s01_agent_loop.html", {}, async (page) => {
    assert.ok(runOf("s01").calls.every(({ usage }) => usage.cache_creation_input_tokens === 0));
    const states = await walk(page, (player) =>
      [".cache", ".counts .read + b"].map((part) => player.querySelector(part)?.textContent),
    );
    for (const [cache, read] of states)
      assert.ok(/^(|0\.\d\d % of the window)$/.test(cache ?? "") && /^[0–]$/.test(read ?? ""), `${cache} ${read}`);
  });
});

test("of a run without a limit is said how much of the window it fills, and no bar is drawn", async () => {
  await visit("s01_agent_loop.html", {}, async (page) => {
    await page.keyboard.press("Tab");
    const { usage } = runOf("s01").calls[0] ?? (runOf("s01").calls[1] as Run["calls"][0]);
    const share = `${(promptOf(usage) / 2_000).toFixed(2)} % of the window`;
    assert.equal(await page.innerText(".player .cache"), share);
    assert.equal(await page.locator(".player :is(.meter, .counts):visible").count(), 0);
  });
});

test("a reminder is there to be read when it comes", async () => {
  await visit("s03_todo_write.html", {}, async (page) => {
    await scrollTo(page, "4. Remind");
    await page.waitForSelector('.player[data-name="remind"]');
    const reminder = page.locator(".player .note pre:visible");
    assert.match(await reminder.innerText(), /Update your todos/);
    assert.ok(await reminder.evaluate(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth));
  });
});

test("rounds before the one that goes on are a line each", async () => {
  await visit(S06, {}, async (page) => {
    await page.evaluate(() => {
      const slider = document.querySelector<HTMLInputElement>(".player input[type=range]");
      if (slider) slider.value = "5";
      slider?.dispatchEvent(new Event("input"));
    });
    const heights = await page
      .locator(".player li:is(.user, .assistant):visible")
      .evaluateAll((all) => all.map((each) => each.clientHeight));
    assert.ok(heights.length > 10);
    assert.ok(Math.max(...heights.slice(0, -2)) < 32, `${heights}`);
    assert.ok(Math.min(...heights.slice(-2)) > 50, `${heights}`);
  });
});

test("beside the tool call stands its result, both without a label: what layer 1 leaves of it can be read", async () => {
  await visit(S06, { viewport: { width: 1440, height: 900 } }, async (page) => {
    await scrollTo(page, "1. Layer 1");
    await page.waitForSelector('.player[data-name="cleared"]');
    const lines = page.locator('.player .tool_result pre:visible:text("[Previous: used read_file]")');
    const widths = await lines.evaluateAll((all) => all.map((each) => each.scrollWidth - each.clientWidth));
    assert.deepEqual(widths, [0]);
    assert.equal(await page.locator(".player li.brief:has(.tool_use, .tool_result) > b:visible").count(), 0);
  });
});

describe("the controls", () => {
  test("are on the first screen, in one line", async () => {
    for (const path of ["index.html", "s01_agent_loop.html", S06])
      await visit(path, {}, async (page) => {
        for (const viewport of [
          { width: 1280, height: 800 },
          { width: 1000, height: 800 },
          { width: 390, height: 844 },
        ]) {
          await page.setViewportSize(viewport);
          const { y = -1, height = 0 } = (await page.locator(".player .controls").boundingBox()) ?? {};
          assert.ok(y > 0 && y + height <= viewport.height, `${path}, ${viewport.width}: ${y}`);
          assert.ok(height < 80, `${path}, ${viewport.width}: ${height}`);
        }
      });
  });

  test("get the focus in the order of the screen, and the slider says its step in words", async () => {
    await visit("s01_agent_loop.html", {}, async (page) => {
      const parts = page.locator(".player :is(a, input, button, [tabindex])");
      const places = await parts.evaluateAll((all) =>
        all.map((each) => {
          const { top, left, height } = each.getBoundingClientRect();
          return [Math.round((top + height / 2) / 24), left] as const; // in one line, if about as high
        }),
      );
      assert.deepEqual(
        places,
        places.toSorted(([line, left], [other, right]) => line - other || left - right),
      );
      await page.click('.player [data-do="next"]');
      const says = await page.innerText(".player .says span");
      assert.equal(await page.getByRole("slider").getAttribute("aria-valuetext"), `2 / 14: ${says}`);
    });
  });
});

test("the slider goes to any step, by mouse and by keyboard, and has a mark for each round", async () => {
  await visit("s04_subagent.html", {}, async (page) => {
    const slider = page.getByRole("slider", { name: "Step" });
    const [, steps] = await isAt(page);
    const { calls } = runOf("s04");
    assert.equal(await page.locator(".player .marks .round").count(), calls.length);
    assert.equal(await page.locator(".player .marks .subagent").count(), 1);
    const { width = 0, height = 0 } = (await slider.boundingBox()) ?? {};
    await slider.click({ position: { x: width - 4, y: height / 2 } });
    assert.deepEqual(await isAt(page), [steps, steps]);
    await page.keyboard.press("ArrowLeft");
    assert.deepEqual(await isAt(page), [steps - 1, steps]);
    await page.keyboard.press("Home");
    assert.deepEqual(await isAt(page), [1, steps]);
  });
});

test("above the slider a column for each step is as high as what the model call sends, under or above the limit", async () => {
  await visit(S06, {}, async (page) => {
    const bars = await walk(page, (player) =>
      [".counts .read + b", ".counts .fresh + b"].map((part) =>
        Number(player.querySelector(part)?.textContent?.replace(/\D/g, "")),
      ),
    );
    const columns = await page
      .locator(".player .chart i")
      .evaluateAll((all) =>
        all.map(({ style }) =>
          [style.getPropertyValue("--old"), style.getPropertyValue("--all")].map(Number.parseFloat),
        ),
      );
    const { calls, limit = 0 } = runOf(S06);
    const span = 1.05 * Math.max(limit, ...calls.map(({ usage, estimate }) => estimate?.tokens ?? promptOf(usage)));
    const isSent = bars.map(([, fresh]) => Number(fresh) > 0);
    const wanted = bars.map(([read = 0, fresh = 0], i) =>
      isSent[i] ? [read, read + fresh].map((tokens) => Math.round((100 * tokens) / span)) : [0, 0],
    );
    assert.deepEqual(columns, wanted);
    assert.ok(isSent.includes(false));
  });
});

test("a legend names each kind of mark that the slider has, in one line", async () => {
  const kinds = async (page: Page, part: string) =>
    [
      ...new Set(await page.locator(`.player ${part} i`).evaluateAll((all) => all.map((each) => each.className))),
    ].sort();
  for (const [path, names] of [
    ["s03_todo_write.html", "round reminder"],
    ["s04_subagent.html", "round subagent"],
    [S06, "round 1 clear 2 summary 3 asked resume"],
  ] as const)
    await visit(path, {}, async (page) => {
      for (const viewport of [{ width: 1280, height: 800 }, PHONE]) {
        await page.setViewportSize(viewport);
        const legend = page.locator(".player .legend");
        assert.equal((await legend.innerText()).replace(/\s+/g, " ").trim(), names);
        assert.deepEqual(await kinds(page, ".legend"), await kinds(page, ".marks"));
        const { height = 99, width = 999 } = (await legend.boundingBox()) ?? {};
        const end = await legend.evaluate(
          ({ lastElementChild }) => lastElementChild?.getBoundingClientRect().right ?? 999,
        );
        assert.ok(height < 20 && width < viewport.width && end < viewport.width, `${path}: ${height}, ${end}`);
      }
    });
});

test("the subagent's messages come and go", async () => {
  await visit("s04_subagent.html", {}, async (page) => {
    const counts = await walk(
      page,
      (player) => [...player.querySelectorAll("li.child")].filter((each) => each.checkVisibility()).length,
    );
    assert.equal(Math.max(...counts), 5, "a sentence, and four messages");
    assert.deepEqual([counts[0], counts.at(-1)], [0, 0]);
  });
});

test("it plays only when it is asked, waits as long as a sentence is, to the end, and stops when one takes over", async () => {
  await visit("s01_agent_loop.html", {}, async (page) => {
    await page.clock.install();
    await page.reload();
    await page.waitForSelector(".player[data-step]");
    await page.clock.pauseAt(Date.now() + 60_000); // from here on it goes only when it is told to
    assert.equal((await isAt(page))[0], 1);
    await page.click(".player .play");
    const waits: { length: number; time: number }[] = [];
    for (let [at, time] = [1, 0]; (await page.innerText(".player .play")) === "Pause"; time += 250) {
      const length = (await page.innerText(".player .says")).length;
      await page.clock.runFor(250);
      const [now] = await isAt(page);
      if (now !== at) waits.push({ length, time });
      if (now !== at) [at, time] = [now, 0];
    }
    const [at, of] = await isAt(page);
    assert.equal(at, of);
    const sorted = waits.toSorted((a, b) => a.length - b.length);
    assert.ok(Number(sorted[0]?.time) >= 1_000 && Number(sorted.at(-1)?.time) > 1.5 * Number(sorted[0]?.time));
    await page.keyboard.press("Home");
    await page.click(".player .play");
    await page.clock.runFor(10_000);
    const [playing] = await isAt(page);
    await page.click('.player [data-do="previous"]');
    await page.clock.runFor(60_000);
    assert.equal((await isAt(page))[0], playing - 1);
    await page.context().close(); // its clock stands still
  });
});

test("either it plays or it follows the text", async () => {
  await visit("s01_agent_loop.html", {}, async (page) => {
    const follows = page.getByLabel("follows the text");
    await page.click(".player .play");
    assert.equal(await follows.isChecked(), false);
    await follows.check();
    assert.equal(await page.innerText(".player .play"), "Play");
  });
});

test("who asked the system for less motion gets no way to play it, and can step", async () => {
  await visit("index.html", { reducedMotion: "reduce" }, async (page) => {
    assert.equal(await page.locator(".player .play").isVisible(), false);
    await page.click('.player [data-do="next"]');
    assert.equal((await isAt(page))[0], 6);
  });
});

describe("on a phone", () => {
  const phone = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };

  for (const path of ["s01_agent_loop.html", "s04_subagent.html", S06])
    test(`${path}: script, bar, messages and controls are in one screen at every step`, async () => {
      await visit(path, phone, async (page) => {
        await page.locator(".player").evaluate((player) => player.scrollIntoView());
        const bar = await page.locator(".VPLocalNav").boundingBox();
        const top = (bar?.y ?? 0) + (bar?.height ?? 0);
        await page.locator(".player").evaluate((player, top) => player.setAttribute("data-top", `${top}`), top);
        const wrong = await walk(page, (player) =>
          [...player.querySelectorAll(".script, .marked, .says, .label, .messages, .controls")].flatMap((part) => {
            const box = part.getBoundingClientRect();
            const top = Number(player.getAttribute("data-top"));
            const isInside = box.top >= top - 1 && box.bottom <= innerHeight && box.left >= 0;
            const isTooWide = part.matches(":not(.script, .marked)") && part.scrollWidth > part.clientWidth;
            const isTooLow = part.matches(".messages") && box.height < 120;
            return isInside && !isTooWide && !isTooLow ? [] : [`${part.className} ${box.top} ${box.height}`];
          }),
        );
        assert.deepEqual(wrong.flat(), []);
      });
    });

  test("what one taps is 44 pixels large", async () => {
    await visit(S06, phone, async (page) => {
      await page.locator(".player").evaluate((player) => player.scrollIntoView());
      const sizes = await page.locator(".player :is(button, select, input[type=range])").evaluateAll((targets) =>
        targets
          .filter((each) => each.checkVisibility())
          .map((each) => {
            const { width, height } = each.getBoundingClientRect();
            return Math.min(width, height);
          }),
      );
      assert.ok(sizes.length >= 4 && Math.min(...sizes) >= 44, sizes.join(" "));
    });
  });
});

test("without JavaScript all of the run is text", async () => {
  for (const path of ["index.html", ...lessons])
    await visit(path, { javaScriptEnabled: false, viewport: PHONE }, async (page) => {
      const { hidden, clipped } = await page.locator(".player").evaluate((player) => ({
        hidden: [...player.querySelectorAll("li, .block, .loop .line")].filter(
          (each) => each.getClientRects().length === 0,
        ).length,
        clipped: [...player.querySelectorAll(".script, .messages")].some(
          (each) => each.scrollHeight > each.clientHeight + 1,
        ),
      }));
      assert.deepEqual({ hidden, clipped }, { hidden: 0, clipped: false }, path);
      assert.equal(await page.locator(".player .controls").isVisible(), false);
    });
});

test("on the Chinese site it speaks Chinese", { skip: !hasChinese }, async () => {
  await visit("zh/s06_context_compact.html", {}, async (page) => {
    await page.click('.player [data-do="next"]');
    await page.click('.player [data-do="next"]');
    assert.match(await page.innerText(".player .says"), /1 轮，程序运行/);
    assert.match(await page.innerText(".player .request"), /下一次模型调用.*缓存命中/s);
    assert.equal(await page.innerText(".player .play"), "播放");
  });
});
