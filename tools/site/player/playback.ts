/** Plays the recorded runs on a page step by step. `player.ts` has put all that they show into the page. */
import type { Step } from "./steps.ts";

const TOP = 100; // pixels that the menus cover
const READ = 0.4; // a heading in this top part of the window begins the section being read
const ROW = 22; // pixels of earlier messages that stay in sight above a long message

export function startPlayers(): void {
  for (const root of document.querySelectorAll<HTMLElement>(".player:not([data-step])")) new Player(root);
}

/** Returns the milliseconds it takes to read a step's sentence. A Chinese character takes as long as a short word. */
const timeFor = ({ says, code = "" }: Step) => 1_200 + 45 * (says + code).replace(/\p{Script=Han}/gu, "word").length;

class Player {
  readonly root: HTMLElement;
  readonly steps: Step[];
  readonly slider: HTMLInputElement;
  readonly follow: HTMLElement | null;
  isFollowing = true;
  now = 0;
  timer = 0;

  constructor(root: HTMLElement) {
    this.root = root;
    this.steps = JSON.parse(root.dataset.steps ?? "[]");
    this.slider = this.find("input[type=range]");
    this.follow = root.querySelector("[data-do=follow]");
    this.show(0);
    this.listen();
    if (this.follow) this.watch();
  }

  find<Found extends HTMLElement>(selector: string): Found {
    return this.root.querySelector(selector) as Found;
  }

  all(selector: string): HTMLElement[] {
    return [...this.root.querySelectorAll<HTMLElement>(selector)];
  }

  show(wanted: number): void {
    const last = this.steps.length - 1;
    this.now = Math.min(Math.max(wanted, 0), last);
    const step = this.steps[this.now];
    if (!step) return;
    this.root.dataset.step = String(this.now);
    this.root.dataset.name = step.name;
    this.slider.value = String(this.now);
    this.find(".count").textContent = `${this.now + 1} / ${this.steps.length}`;
    this.slider.setAttribute("aria-valuetext", `${this.now + 1} / ${this.steps.length}: ${step.says}`);
    this.find("[data-do=previous]").ariaDisabled = String(this.now === 0); // `disabled` would take the focus away
    this.find("[data-do=next]").ariaDisabled = String(this.now === last);
    this.showLine(step);
    this.showRequest(step);
    this.showMessages();
  }

  showLine({ line, inside, first = line, last = line, says, code = "", value = "" }: Step): void {
    this.find(".inside").textContent = inside;
    this.find(".says span").textContent = says;
    this.find(".says code").textContent = code;
    for (const each of this.all(".line")) {
      each.classList.toggle("marked", Number(each.dataset.line) === line);
      delete each.dataset.value;
    }
    if (value) this.find(".marked").dataset.value = value;
    this.lookAt(first, last, line);
  }

  /** Marks lines as having run and scrolls one of them into sight. */
  lookAt(first: number, last: number, line = first): void {
    const lines = this.all(".line");
    for (const { dataset, classList } of lines)
      classList.toggle("ran", Number(dataset.line) >= first && Number(dataset.line) <= last);
    const top = (wanted: number) => lines.find(({ dataset }) => Number(dataset.line) === wanted)?.offsetTop ?? 0;
    const script = this.find(".script");
    const places = [script.scrollTop, this.find(".loop").offsetTop, top(line - 3)];
    const isInSight = (place: number) => top(line) >= place && top(line) < place + script.clientHeight - 48;
    script.scrollTop = places.find(isInSight) ?? 0;
  }

  showRequest({ request }: Step): void {
    const { label, read, fresh, tokensBefore, cache, state } = request;
    const place = this.find(".request");
    const { span, unit } = place.dataset;
    const format = (tokens: number) => tokens.toLocaleString("en-US");
    place.className = `request ${state}`;
    this.find(".label").textContent = label;
    this.find(".total").textContent = fresh ? `${format(read + fresh)} ${unit}` : "";
    this.find(".before").hidden = tokensBefore === 0;
    this.find(".before").style.width = `${(100 * tokensBefore) / Number(span)}%`;
    this.find(".cache").textContent = cache;
    for (const [name, tokens] of Object.entries({ read, fresh })) {
      this.find(`.meter .${name}`).style.width = fresh ? `${(100 * tokens) / Number(span)}%` : "0";
      this.find(`.counts .${name} + b`).textContent = fresh ? format(tokens) : "–"; // no model call
    }
  }

  /** Shortens the messages of earlier rounds to a line each, and scrolls to the newest message. */
  showMessages(): void {
    const { now } = this;
    const began = this.steps.findLastIndex(({ mark }, i) => i <= now && mark);
    for (const part of this.all("[data-from]")) {
      const { from, in: arrived = from, last = from, struck = Infinity, until = Infinity } = part.dataset;
      part.hidden = now < Number(from) || now >= Number(until);
      part.classList.toggle("pending", now < Number(arrived));
      part.classList.toggle("cached", now >= Number(part.dataset.sent ?? Infinity));
      part.classList.toggle("struck", now >= Number(struck));
      part.classList.toggle("old", Number(last) < began);
    }
    const messages = this.find(".messages");
    const shown = this.all("li:not([hidden])");
    const last = shown.at(-1);
    const newest = shown.findLast((item) => !item.matches(".brief, .old, .event")) ?? last;
    if (!newest || !last) return;
    const height = last.offsetTop + last.offsetHeight - newest.offsetTop; // including the short lines that follow
    const room = Math.max(0, messages.clientHeight - height - 10); // pixels of padding below
    const above = height > messages.clientHeight ? ROW : room;
    messages.scrollTop = shown.find(({ offsetTop }) => offsetTop >= newest.offsetTop - above)?.offsetTop ?? 0; // so that no row is cut
  }

  stop(): void {
    clearTimeout(this.timer);
    this.timer = 0;
    this.find(".play").textContent = this.find(".play").dataset.play ?? "";
  }

  /** Shows a step that the reader chose, and stops playing and following the text. */
  take(step: number): void {
    this.stop();
    this.setFollowing(false);
    this.show(step);
  }

  setFollowing(isFollowing: boolean): void {
    this.isFollowing = isFollowing;
    if (this.follow) this.follow.hidden = isFollowing;
  }

  toggle(): void {
    const isPlaying = this.timer > 0;
    const next = this.now === this.steps.length - 1 ? 0 : this.now + 1;
    this.take(isPlaying ? this.now : next);
    if (isPlaying) return;
    this.find(".play").textContent = this.find(".play").dataset.pause ?? "";
    this.wait();
  }

  wait(): void {
    const step = this.steps[this.now];
    const isOver = !this.root.isConnected || this.now === this.steps.length - 1;
    const goOn = () => {
      this.show(this.now + 1);
      this.wait();
    };
    if (!step || isOver) this.stop();
    else this.timer = window.setTimeout(goOn, timeFor(step));
  }

  listen(): void {
    const keys: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
    this.root.addEventListener("keydown", (event) => {
      const way = keys[event.key];
      const isShortcut = event.altKey || event.ctrlKey || event.metaKey; // Alt+← goes back in the browser
      if (!way || isShortcut) return;
      event.preventDefault();
      this.take(this.now + way);
    });
    this.root.addEventListener("click", ({ target }) => {
      const wanted = (target as Element).closest<HTMLElement>("[data-do]")?.dataset.do;
      if (wanted === "play") this.toggle();
      else if (wanted === "next" || wanted === "previous") this.take(this.now + (wanted === "next" ? 1 : -1));
    });
    this.slider.addEventListener("input", () => this.take(Number(this.slider.value)));
  }

  /** If the player is beside the text, scrolling shows the step or the lines of the section being read. */
  watch(): void {
    const sections = [...document.querySelectorAll<HTMLElement>(".vp-doc :is([data-at], [data-lines])")];
    let shown: HTMLElement | undefined;
    const follow = () => {
      if (!this.root.isConnected) return removeEventListener("scroll", follow);
      const isBeside = getComputedStyle(this.root).position === "fixed";
      const section = sectionBeingRead(sections);
      if (!isBeside || !this.isFollowing || section === shown) return;
      shown = section;
      this.showSection(section, sections);
    };
    addEventListener("scroll", follow, { passive: true });
    follow();
    this.follow?.addEventListener("click", () => {
      this.stop();
      this.setFollowing(true);
      shown = undefined;
      follow();
    });
    for (const link of document.querySelectorAll<HTMLElement>(".to-step"))
      link.addEventListener("click", () => this.take(Number(link.dataset.step)));
  }

  showSection(section: HTMLElement | undefined, sections: HTMLElement[]): void {
    const until = sections.slice(0, sections.indexOf(section as HTMLElement) + 1);
    this.show(Number(until.findLast(({ dataset }) => dataset.at)?.dataset.at ?? 0));
    const { lines, inside = "", says = "" } = section?.dataset ?? {};
    const [first, last] = lines?.split("-").map(Number) ?? [];
    if (!first || !last) return;
    for (const line of this.all(".marked")) line.classList.remove("marked");
    this.find(".inside").textContent = inside;
    this.find(".says span").textContent = says;
    this.find(".says code").textContent = "";
    this.lookAt(first - 1, last - 1);
  }
}

/** Returns the section that the address names if its heading is in the top part of the window, or else the first there. */
function sectionBeingRead(sections: HTMLElement[]): HTMLElement | undefined {
  const topOf = (section: HTMLElement) => section.getBoundingClientRect().top;
  const isAtEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 2;
  const bottom = isAtEnd ? innerHeight : READ * innerHeight; // the last sections can't reach the top part
  const inSight = sections.filter((section) => topOf(section) >= TOP && topOf(section) < bottom);
  const named = inSight.find(({ id }) => `#${id}` === decodeURIComponent(location.hash));
  return named ?? inSight[0] ?? sections.findLast((section) => topOf(section) < TOP);
}
