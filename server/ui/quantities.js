const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export function count(value) {
  return whole.format(value);
}

export function seconds(value) {
  return value < 0.1 ? `${(value * 1000).toFixed(0)} ms` : `${value.toFixed(2)} s`;
}

export function bytes(value) {
  const unit = value < 1 ? 0 : Math.min(Math.floor(Math.log2(value) / 10), UNITS.length - 1);
  return `${(value / 1024 ** unit).toFixed(unit ? 1 : 0)} ${UNITS[unit]}`;
}

export function signed(value) {
  return `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;
}
