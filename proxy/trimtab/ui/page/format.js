// Numbers as people read them: with separators, in the language of the browser.

const whole = new Intl.NumberFormat();
const tenth = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1, minimumFractionDigits: 1 });
const share = new Intl.NumberFormat(undefined, { style: "percent", maximumFractionDigits: 1 });
const dollars = new Intl.NumberFormat(undefined, { style: "currency", currency: "USD", maximumFractionDigits: 4 });
const short = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });

export const count = (number) => (number === null || number === undefined ? "–" : whole.format(number));
export const compact = (number) => short.format(number);
export const percent = (part, of) => (of > 0 ? share.format(part / of) : "–");
export const usd = (amount) => dollars.format(amount);
export const time = (seconds) => clock.format(new Date(seconds * 1000));
export const several = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

export function ms(milliseconds) {
  if (milliseconds === null || milliseconds === undefined) return "–";
  return milliseconds >= 100 ? count(Math.round(milliseconds)) : tenth.format(milliseconds);
}

export function factor(number) {
  return new Intl.NumberFormat(undefined, { maximumFractionDigits: 2, minimumFractionDigits: 2 }).format(number);
}

export const edits = (byStage) =>
  Object.entries(byStage)
    .map(([stage, number]) => `${stage} ${count(number)}`)
    .join(", ") || "none";
