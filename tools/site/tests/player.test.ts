/** The recorded runs, step by step, in a Chromium: on the front page and on each lesson's. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Page } from "playwright-core";
import type { Usage } from "../../trace/conversation.ts";
import { totalOf } from "../../trace/timeline.ts";
import { readRun } from "../.vitepress/run.ts";
import { hasChinese, PHONE, pages, S01, visit } from "./browser.ts";

const lessons = pages.filter((page) => /^s\d\d_/.test(page));
const S06 = "s06_context_compact.html";
const line = (page: Page) => page.innerText(".player .script .marked");
const messages = (page: Page) => page.locator(".player li:is(.user, .assistant):visible").count();
/** What the API counted of each model call in the run of a lesson, those for summaries and of subagents included. */
function usagesIn(path: string): Usage[] {
  const { parent, tasks } = readRun(path.slice(0, 3));
  const timelines = [parent, ...tasks].map(({ timeline }) => timeline);
  return timelines.flatMap(({ moments, compactions }) =>
    [...moments, ...compactions].flatMap(({ usage }) => usage ?? []),
  );
}
const isAt = async (page: Page) =>
  (await page.innerText(".player .count")).split(" / ").map(Number) as [number, number];
/** Goes through all steps in the page itself. @returns what `look` saw at each */
const walk = <Seen>(page: Page, look: (player: Element) => Seen): Promise<Seen[]> =>
  page.locator(".player").evaluate((player, source) => {
    const look: (player: Element) => Seen = new Function(`const __name = (named) => named; return ${source}`)(); // esbuild adds calls of __name
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

test("the first screen of the front page has the lessons, and the run of s01 at a tool call", async () => {
  for (const path of hasChinese ? ["index.html", "zh/index.html"] : ["index.html"])
    await visit(path, { viewport: { width: 1280, height: 800 } }, async (page) => {
      for (const part of [".vp-doc h1", ".vp-doc table", ".player .script", ".player .controls"]) {
        const { y = -1, height = 0 } = (await page.locator(part).first().boundingBox()) ?? {};
        assert.ok(y > 0 && y + height <= 800, `${path}: ${part} ends at ${y + height}`);
      }
      assert.match(await line(page), /runCall\(call/);
      assert.match(await page.innerText(".player .script"), /function agentLoop/);
    });
});

test("buttons and arrow keys go back and forth: each step marks the line that runs and shows what it changes", async () => {
  await visit(S01, {}, async (page) => {
    const pending = page.locator(".player li.pending:visible");
    assert.match(await line(page), /function agentLoop/);
    assert.equal(await messages(page), 1);
    await page.click('.player [data-do="next"]');
    assert.match(await line(page), /await callModel/);
    assert.deepEqual([await messages(page), await pending.count()], [2, 1]);
    await page.keyboard.press("ArrowRight");
    assert.match(await line(page), /messages\.push\(\{ role: "assistant"/);
    assert.deepEqual([await messages(page), await pending.count()], [2, 0]);
    await page.click('.player [data-do="previous"]');
    assert.match(await line(page), /await callModel/);
    await page.keyboard.press("End");
    assert.match(await line(page), /if \(calls\.length === 0\) return/);
    await page.keyboard.press("Home");
    assert.equal(await messages(page), 1);
  });
});

describe("in each lesson", () => {
  const news: Record<string, RegExp> = {
    s01: /tool call bash/,
    s02: /tool call edit_file/,
    s03: /<reminder>/,
    s04: /tool call task/,
    s05: /<skill name="code-review"/,
    s06: /Conversation compressed/,
  };
  for (const path of lessons)
    test(`${path}: the run has what is new in the lesson, and each model call what was recorded of it`, async () => {
      await visit(path, {}, async (page) => {
        const seen = await walk(page, (player) => ({
          name: player.getAttribute("data-name") ?? "",
          messages: player.querySelector<HTMLElement>(".messages")?.innerText ?? "",
          bar: [".counts .read + b", ".counts .fresh + b"].map((part) => player.querySelector(part)?.textContent ?? ""),
        }));
        assert.ok(seen.some(({ messages }) => news[path.slice(0, 3)]?.test(messages)));
        const recorded = usagesIn(path).map((usage) => [usage.read, totalOf(usage) - usage.read].join());
        const sent = seen.filter(({ name }) => /^(call|summary)$/.test(name));
        const shown = sent.map(({ bar }) => bar.map((text) => text.replace(",", "")).join());
        assert.ok(shown.length > 0);
        assert.deepEqual(
          shown.filter((each) => !recorded.includes(each)),
          [],
        );
      });
    });
});

describe("in s06", async () => {
  const seen = await visit(S06, {}, (page) =>
    walk(page, (player) => {
      const shown = [...player.querySelectorAll<HTMLElement>("li")].filter((each) => each.checkVisibility());
      const right = (part: string) => player.querySelector(part)?.getBoundingClientRect().right ?? 0;
      return {
        name: player.getAttribute("data-name") ?? "",
        struck: shown.filter((each) => each.matches(".struck:not(.event)")).length,
        pending: shown.flatMap((each) => (each.matches(".pending") ? each.innerText : [])).join("\n"),
        messages: shown.filter((each) => !each.matches(".event, .child")).length,
        text: player.querySelector<HTMLElement>(".messages")?.innerText ?? "",
        disk: shown.flatMap((each) => (each.matches(".child") ? each.innerText : [])).join("\n"),
        isAhead: player.querySelectorAll(".request.ahead").length > 0,
        beyond: right(".meter .fresh") - right(".meter .threshold"),
        without: right(".meter .without"),
        cached: shown.filter((each) => each.matches(".cached:not(.event)")).length,
      };
    }),
  );
  type Seen = (typeof seen)[0];
  /** The steps from the first of this name on. */
  const from = (name: string) => {
    const start = seen.findIndex((each) => each.name === name);
    assert.ok(start >= 0, `no step is called ${name}`);
    return seen.slice(start) as [Seen, Seen, Seen];
  };

  test("each layer acts, a command kills the program, and a request comes when the cache is cold", () => {
    const names = seen.map(({ name }) => name);
    for (const name of ["past", "before", "asked", "killed", "pause", "resume", "cold"]) from(name);
    assert.ok(names.indexOf("killed") < names.indexOf("resume") && names.indexOf("resume") < names.indexOf("cold"));
  });

  test("a prompt past the threshold is drawn beyond it until a layer has acted, and then inside of what it was", () => {
    for (const name of ["past", "before"]) {
      const [at, ...later] = from(name);
      assert.ok(at.isAhead && at.beyond > 0, `${name}: ${at.beyond}`);
      const after = later.find((each) => /^(cleared|after)$/.test(each.name));
      assert.ok(after && after.beyond < 0 && after.without > 0, `after ${name}: ${after?.beyond}`);
    }
  });

  test("layer 1: the results that go are struck out, and then a line each", () => {
    for (const name of ["past", "cold"]) {
      const [at, cleared] = from(name);
      const lines = (text: string) => text.match(/\[Previous: used \w+\]/g)?.length ?? 0;
      assert.ok(at.struck > 0);
      assert.equal(lines(cleared.text) - lines(at.text), at.struck);
      assert.deepEqual([cleared.messages, cleared.struck], [at.messages, 0]);
    }
  });

  test("layer 2: what goes is struck out while the summary is written, and then the summary is in its place", () => {
    const [before, summary, after] = from("before");
    assert.deepEqual([before.struck > 0, summary.struck > 0, after.struck], [false, true, 0]);
    assert.match(summary.pending, /Conversation compressed/);
    assert.match(after.text, /Conversation compressed/);
    assert.equal(after.messages, before.messages - summary.struck + 1);
  });

  test("in a cold cache no message is drawn as cached", () => {
    assert.equal(from("cold")[0].cached, 0);
  });

  test("what the killed program had is on disk, and a new program has all of it, and a result for the last call", () => {
    const before = seen[seen.findIndex(({ name }) => name === "killed") - 1];
    const [killed, pause, resume] = from("killed");
    for (const { messages, disk } of [killed, pause]) {
      assert.equal(messages, 0);
      assert.match(disk, /kill -9 \$PPID$/);
    }
    assert.equal(resume.disk, "");
    assert.ok(resume.messages > Number(before?.messages));
    assert.match(resume.text, /kill -9 \$PPID\s+user\s+tool result\s+\(interrupted; it may have run\)/);
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
    test(`${path}: what came last is in sight, and nothing moves or is cut`, async () => {
      await visit(path, { reducedMotion: "reduce" }, async (page) => {
        for (const viewport of screens) {
          await page.setViewportSize(viewport);
          const seen = await walk(page, (player) => {
            const shown = [...player.querySelectorAll("li")].filter((each) => each.checkVisibility());
            const newest = shown.findLast((each) => !each.matches(".brief, .old, .event")) ?? shown.at(-1) ?? player;
            const box = (part: string | Element) => {
              const element = typeof part === "string" ? (player.querySelector(part) ?? player) : part;
              const { top, bottom, height } = element.getBoundingClientRect();
              return { top, bottom, height, isCut: element.scrollHeight > element.clientHeight };
            };
            const [script, marked, messages, last] = [".script", ".script .marked", ".messages", newest].map(box);
            if (!script || !marked || !messages || !last) throw new Error("a part is missing");
            const least = Math.min(last.height, messages.height / 2); // of a long one its beginning
            const end = box(shown.at(-1) ?? newest).bottom;
            const top = player.getBoundingClientRect().top;
            const parts = [".script", ".says", ".request", ".messages", ".controls"].map(box);
            return {
              name: player.getAttribute("data-name") ?? "",
              places: parts.map((each) => `${Math.round(each.top - top)} ${each.height}`),
              isSeen: last.top >= messages.top - 1 && last.top + least <= messages.bottom + 1,
              isEndSeen: end <= messages.bottom + 1 || end - last.top > messages.height - 1,
              isMarkSeen: marked.top >= script.top - 1 && marked.top + 18 <= script.bottom,
              isCut: box(".says").isCut,
            };
          });
          for (const [i, { name, places, ...rest }] of seen.entries()) {
            const step = `${viewport.width}: step ${i + 1}, ${name}`;
            assert.deepEqual(places, seen[0]?.places, step);
            assert.deepEqual(rest, { isSeen: true, isEndSeen: true, isMarkSeen: true, isCut: false }, step);
          }
        }
      });
    });
});

test("a run without a threshold has no bar", async () => {
  await visit(S01, {}, async (page) => {
    assert.equal(await page.locator(".player :is(.meter, .counts):visible").count(), 0);
  });
});

test("the controls are on the first screen, in one line, and the legend names each mark of the slider", async () => {
  for (const path of ["index.html", ...lessons])
    await visit(path, {}, async (page) => {
      for (const viewport of [
        { width: 1280, height: 800 },
        { width: 1000, height: 800 },
        { width: 390, height: 844 },
      ]) {
        await page.setViewportSize(viewport);
        const { y = -1, height = 0 } = (await page.locator(".player .controls").boundingBox()) ?? {};
        assert.ok(y > 0 && y + height <= viewport.height && height < 80, `${path}, ${viewport.width}: ${y}, ${height}`);
      }
      const [marks, legend] = await Promise.all(
        [".marks i", ".legend i"].map((part) =>
          page.locator(`.player ${part}`).evaluateAll((all) => all.map((each) => each.outerHTML.split(" style")[0])),
        ),
      );
      const plain = (icons: (string | undefined)[] = []) =>
        [...new Set(icons.map((icon) => /class="(\w+)"/.exec(`${icon}`)?.[1]))].sort();
      assert.deepEqual(plain(legend), plain(marks));
    });
});

test("the slider goes to any step by mouse and by keyboard, says it in words, and marks each round and subagent", async () => {
  await visit("s04_subagent.html", {}, async (page) => {
    const slider = page.getByRole("slider", { name: "Step" });
    const [, steps] = await isAt(page);
    assert.equal(await page.locator(".player .marks .round").count(), usagesIn("s04").length);
    assert.ok((await page.locator(".player .marks .subagent").count()) > 0);
    const { width = 0, height = 0 } = (await slider.boundingBox()) ?? {};
    await slider.click({ position: { x: width - 4, y: height / 2 } });
    assert.deepEqual(await isAt(page), [steps, steps]);
    await page.keyboard.press("ArrowLeft");
    assert.deepEqual(await isAt(page), [steps - 1, steps]);
    const says = await page.innerText(".player .says span");
    assert.equal(await slider.getAttribute("aria-valuetext"), `${steps - 1} / ${steps}: ${says}`);
  });
});

test("the subagent's messages come and go", async () => {
  await visit("s04_subagent.html", {}, async (page) => {
    const counts = await walk(
      page,
      (player) => [...player.querySelectorAll("li.child")].filter((each) => each.checkVisibility()).length,
    );
    assert.deepEqual([counts[0], Math.max(...counts) > 2, counts.at(-1)], [0, true, 0]);
  });
});

test("it plays to the end once it is asked to, waits longer for a longer sentence, and stops when the reader takes over", async () => {
  await visit(S01, {}, async (page) => {
    await page.clock.install();
    await page.reload();
    await page.waitForSelector(".player[data-step]");
    await page.clock.pauseAt(Date.now() + 60_000); // from here on its clock moves only when we say so
    assert.equal((await isAt(page))[0], 1);
    await page.click(".player .play");
    assert.equal(await page.getByLabel("follows the text").isChecked(), false);
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
    assert.ok(Number(sorted[0]?.time) >= 1_000 && Number(sorted.at(-1)?.time) > Number(sorted[0]?.time));
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

test("whoever asked for less motion can't play it, but can step through it", async () => {
  await visit("index.html", { reducedMotion: "reduce" }, async (page) => {
    const [at] = await isAt(page);
    assert.equal(await page.locator(".player .play").isVisible(), false);
    await page.click('.player [data-do="next"]');
    assert.equal((await isAt(page))[0], at + 1);
  });
});

test("on a phone, what one taps is 44 pixels large", async () => {
  await visit(S06, { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true }, async (page) => {
    await page.locator(".player").evaluate((player) => player.scrollIntoView());
    const sizes = await page.locator(".player :is(button, input[type=range]):visible").evaluateAll((targets) =>
      targets.map((each) => {
        const { width, height } = each.getBoundingClientRect();
        return Math.min(width, height);
      }),
    );
    assert.ok(sizes.length >= 4 && Math.min(...sizes) >= 44, sizes.join(" "));
  });
});

test("without JavaScript all of the run is text", async () => {
  for (const path of ["index.html", ...lessons])
    await visit(path, { javaScriptEnabled: false, viewport: PHONE }, async (page) => {
      const hidden = await page
        .locator(".player")
        .evaluate((player) =>
          [...player.querySelectorAll("li, .block, .loop .line")].flatMap((each) =>
            each.getClientRects().length === 0 ? `${each.textContent}` : [],
          ),
        );
      assert.deepEqual(hidden, [], path);
      assert.equal(await page.locator(".player .controls").isVisible(), false);
    });
});

test("on the Chinese site it speaks Chinese", { skip: !hasChinese }, async () => {
  await visit(`zh/${S06}`, {}, async (page) => {
    await page.click('.player [data-do="next"]');
    for (const part of [".says", ".request", ".legend", ".play"])
      assert.match(await page.innerText(`.player ${part}`), /\p{Script=Han}/u, part);
  });
});
