// Size, theme, text and pointer of a canvas, and the tooltip.

function readTheme() {
  const style = getComputedStyle(document.documentElement);
  const named = (name) => style.getPropertyValue("--" + name).trim();
  const theme = { sans: named("sans") };
  for (const name of ["ground", "paper", "raised", "line", "soft", "ink", "quiet", "faint", "edge", "bad"]) theme[name] = named(name);
  theme.accent = named("chosen"); // of what is selected: apart from the colours of devices
  return theme;
}

// While the page is printed its canvases stay as they were drawn for that.
const isPrinted = () => document.documentElement.classList.contains("paper");

// Match the canvas's pixels to the screen's; leaves the context in CSS pixels.
function sized(canvas, context) {
  const ratio = window.devicePixelRatio || 1;
  const width = Math.round(canvas.clientWidth * ratio);
  const height = Math.round(canvas.clientHeight * ratio);
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
  }
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
}

function rounded(context, x, y, width, height, radius) {
  context.beginPath();
  context.roundRect(x, y, width, height, Math.min(radius, width / 2, height / 2));
}

// One line of text, vertically centred, cut with an ellipsis where it is too long; nothing where it would be too small, or where
// fewer letters than `least` would be left.
function text(pen, said, x, y, width, colour, font, least = 1) {
  const { context, theme, scale } = pen;
  if (width < 8 || parseFloat(/[0-9.]+px/.exec(font)[0]) * scale < (pen.smallest ?? 5)) return;
  context.font = font + " " + theme.sans;
  context.fillStyle = colour;
  context.textBaseline = "middle";
  context.textAlign = "left";
  context.direction = "ltr";
  const shown = cut(context, said, width);
  if (shown === said || shown.length > least) context.fillText(shown, x, y);
}

function cut(context, said, width) {
  const letter = context.measureText("n").width;
  let shown = said.length * letter * 0.4 > width ? said.slice(0, Math.ceil(width / (letter * 0.4))) : said;
  if (shown === said && context.measureText(said).width <= width) return said;
  let low = 0;
  let high = shown.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(shown.slice(0, middle) + "…").width <= width) low = middle;
    else high = middle - 1;
  }
  return low ? shown.slice(0, low) + "…" : "";
}

const blends = new Map();
const parts = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
function blend(from, to, share) {
  const key = from + to + share;
  if (!blends.has(key)) blends.set(key, blended(from, to, share));
  return blends.get(key);
}
function blended(from, to, share) {
  const target = parts(to);
  return "#" + parts(from).map((part, index) => Math.round(part + (target[index] - part) * share).toString(16).padStart(2, "0")).join("");
}
// Black or white, whichever reads better on the colour (relative luminance of WCAG 2.1).
const inks = new Map();
function inkOn(colour) {
  if (!inks.has(colour)) {
    const [r, g, b] = parts(colour).map((part) => (part <= 10 ? part / 3294 : ((part / 255 + 0.055) / 1.055) ** 2.4));
    const light = 0.2126 * r + 0.7152 * g + 0.0722 * b;
    inks.set(colour, (light + 0.05) / 0.05 >= 1.05 / (light + 0.05) ? "#000000" : "#ffffff");
  }
  return inks.get(colour);
}

// Drag, wheel, hover and click of one canvas, in its own CSS pixels. A press that moves less than 4 px is a click. A drag with Shift
// measures, where that is asked for.
function watchPointer(canvas, on) {
  let pressed = null;
  const at = (event) => {
    const area = canvas.getBoundingClientRect();
    return [event.clientX - area.left, event.clientY - area.top];
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    pressed = { x: event.clientX, y: event.clientY, moved: false, measured: event.shiftKey && on.measure ? at(event)[0] : null };
    canvas.setPointerCapture(event.pointerId);
    canvas.focus({ preventScroll: true });
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!pressed) return on.hover(...at(event), event);
    const dx = event.clientX - pressed.x;
    const dy = event.clientY - pressed.y;
    if (!pressed.moved && Math.hypot(dx, dy) < 4) return;
    if (pressed.measured !== null) {
      pressed.moved = true;
      canvas.style.cursor = "col-resize";
      return on.measure(pressed.measured, at(event)[0]);
    }
    Object.assign(pressed, { moved: true, x: event.clientX, y: event.clientY });
    canvas.style.cursor = "grabbing";
    on.drag(dx, dy);
  });
  canvas.addEventListener("pointerup", (event) => {
    if (pressed && !pressed.moved) on.click(...at(event), event);
    pressed = null;
    canvas.style.cursor = "";
  });
  canvas.addEventListener("pointercancel", () => (pressed = null));
  canvas.addEventListener("pointerleave", () => on.leave());
  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const unit = event.deltaMode === 1 ? 16 : 1;
      on.wheel(...at(event), event.deltaY * unit, event.shiftKey || event.deltaX !== 0 ? (event.deltaX || event.deltaY) * unit : 0);
    },
    { passive: false },
  );
}

// The small box that follows the pointer.
function tooltip(box) {
  return {
    show(event, heading, ...lines) {
      box.replaceChildren(element("b", "", heading), ...lines.map((line) => element("span", "", line)));
      box.hidden = false;
      const { width, height } = box.getBoundingClientRect();
      const left = event.clientX + 14 + width > innerWidth ? event.clientX - width - 10 : event.clientX + 14;
      const top = event.clientY + 16 + height > innerHeight ? event.clientY - height - 10 : event.clientY + 16;
      box.style.left = Math.max(4, left) + "px";
      box.style.top = Math.max(4, top) + "px";
    },
    hide() {
      box.hidden = true;
    },
  };
}
