/** Makes the recorded runs of a page go step by step. What there is to show is in the page: `player.ts` beside the config. */
import type { Step } from "../steps.ts";

const STEP = 1_800; // ms for each while it plays
const SWIPE = 40; // pixels
const READ = 0.4; // of the window: a heading above this line is of the section that one reads

export function startPlayers(): void {
  for (const player of document.querySelectorAll<HTMLElement>(".player:not([data-step])")) start(player);
}

function start(player: HTMLElement): void {
  const steps: Step[] = JSON.parse(player.dataset.steps ?? "[]");
  const find = <Found extends HTMLElement>(selector: string) => player.querySelector(selector) as Found;
  const all = (selector: string) => [...player.querySelectorAll<HTMLElement>(selector)];
  const [script, messages, play] = [find(".script"), find(".messages"), find<HTMLButtonElement>(".play")];
  const [slider, speed] = [find<HTMLInputElement>(".slide input"), find<HTMLSelectElement>(".speed")];
  const follows = find<HTMLInputElement>(".follows input");
  const [lines, parts] = [all(".script .line"), all("[data-from]")];
  const lineAt = (line: number) => lines.find(({ dataset }) => Number(dataset.line) === line);
  const playing = play.dataset.pause ?? "";
  const paused = play.textContent ?? "";
  const last = steps.length - 1;
  let now = 0;
  let timer = 0;

  function show(step: number): void {
    now = Math.min(Math.max(step, 0), last);
    player.dataset.step = String(now);
    player.dataset.name = steps[now]?.name;
    slider.value = String(now);
    find(".count").textContent = `${now + 1} / ${steps.length}`;
    const current = steps[now];
    if (current) {
      showLine(current);
      showRequest(current);
    }
    showMessages();
    for (const [name, end] of [
      ["previous", 0],
      ["next", last],
    ] as const)
      find(`[data-do=${name}]`).ariaDisabled = String(now === end); // and not disabled, which takes the focus away
  }

  function showLine({ line, first = line, last = line, says, code = "", value = "" }: Step): void {
    find(".says span").textContent = says;
    find(".says code").textContent = code;
    for (const each of lines) {
      const number = Number(each.dataset.line);
      each.classList.toggle("marked", number === line);
      each.classList.toggle("ran", number >= first && number <= last);
      if (number === line && value) each.dataset.value = value;
      else delete each.dataset.value;
    }
    const top = lineAt(line)?.offsetTop ?? 0;
    const isInSight = (from: number) => top >= from && top < from + script.clientHeight - 48;
    const home = find(".loop").offsetTop - 8; // the padding: so it stays where it was before scripts ran
    if (isInSight(home)) script.scrollTop = home;
    else if (!isInSight(script.scrollTop)) script.scrollTop = lineAt(line - 1)?.offsetTop ?? 0;
  }

  function showRequest({ request }: Step): void {
    const { read = 0, fresh = 0 } = request ?? {};
    const place = find(".request");
    const { span, none, unit = "" } = place.dataset;
    const format = (tokens: number) => tokens.toLocaleString("en-US");
    place.classList.toggle("waiting", request?.isWaiting ?? false);
    find(".label").textContent = request?.label ?? none ?? "";
    find(".total").textContent = request ? `${format(read + fresh)} ${unit}` : "";
    for (const [name, tokens] of Object.entries({ read, fresh })) {
      find(`.meter .${name}`).style.width = `${(100 * tokens) / Number(span)}%`;
      find(`.counts .${name} b`).textContent = format(tokens);
    }
  }

  function showMessages(): void {
    for (const part of parts) {
      const { from, in: arrived = from, struck = Infinity, until = Infinity } = part.dataset;
      part.hidden = now < Number(from) || now >= Number(until);
      part.classList.toggle("pending", now < Number(arrived));
      part.classList.toggle("struck", now >= Number(struck));
    }
    const added = parts.find(({ dataset }) => [dataset.from, dataset.in].includes(String(now)));
    messages.scrollTop = added ? added.offsetTop - messages.clientHeight / 3 : messages.scrollHeight;
  }

  function stop(): void {
    clearTimeout(timer);
    timer = 0;
    play.textContent = paused;
  }
  /** By hand: it stops, and no longer follows the text. */
  function take(step: number): void {
    stop();
    follows.checked = false;
    show(step);
  }
  function tick(): void {
    if (!player.isConnected || now === last) {
      stop();
      return;
    }
    show(now + 1);
    timer = window.setTimeout(tick, STEP / Number(speed.value));
  }
  function toggle(): void {
    if (timer) {
      stop();
      return;
    }
    take(now === last ? 0 : now);
    timer = window.setTimeout(tick, STEP / Number(speed.value));
    play.textContent = playing;
  }

  const to: Record<string, () => void> = { previous: () => take(now - 1), next: () => take(now + 1), play: toggle };
  player.addEventListener("click", ({ target }) => {
    to[(target as Element).closest<HTMLElement>("[data-do]")?.dataset.do ?? ""]?.();
  });
  slider.addEventListener("input", () => take(Number(slider.value)));

  const keys: Record<string, () => void> = {
    ArrowLeft: () => take(now - 1),
    ArrowRight: () => take(now + 1),
    Home: () => take(0),
    End: () => take(last),
  };
  player.addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.target === speed) return;
    event.preventDefault();
    keys[event.key]?.();
  });

  let touched: PointerEvent | undefined;
  player.addEventListener("pointerdown", (event) => {
    const isElsewhere = (event.target as Element).closest(".script, .controls");
    touched = event.pointerType === "touch" && !isElsewhere ? event : undefined;
  });
  player.addEventListener("pointerup", ({ clientX }) => {
    const way = clientX - (touched?.clientX ?? clientX);
    if (Math.abs(way) > SWIPE) take(now - Math.sign(way));
  });

  /** Reading on moves it to the step that the section is about, where it is beside the text. */
  const sections = [...document.querySelectorAll<HTMLElement>(".vp-doc [data-at]")];
  function follow(): void {
    const isBeside = getComputedStyle(player).position === "fixed";
    const section = sections.findLast((each) => each.getBoundingClientRect().top < READ * innerHeight);
    if (isBeside && follows.checked) show(Number(section?.dataset.at ?? 0));
  }
  const reading = new IntersectionObserver(follow, { rootMargin: `0px 0px -${100 - 100 * READ}%` });
  for (const section of sections) reading.observe(section);
  follows.addEventListener("change", follow);
  show(0);
}
