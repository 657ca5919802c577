// Makes a screenshot a third of its size: 8-bit RGB or RGBA becomes a palette of 128 colours.

import { deflateSync, inflateSync } from "node:zlib";

const MOST_COLOURS = 128;
const SIGNATURE = Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]);

// The PNG `bytes` with a palette.
export function smaller(bytes) {
  const { width, height, pixels } = decode(bytes);
  const { palette, indexOf } = paletteOf(pixels);
  const rows = Buffer.alloc((width + 1) * height);
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) rows[y * (width + 1) + 1 + x] = indexOf.get(pixels[y * width + x]);
  }
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 3, 0, 0, 0], 8);
  const colours = Buffer.from(palette.flatMap((colour) => [colour >> 16, (colour >> 8) & 255, colour & 255]));
  return Buffer.concat([
    SIGNATURE,
    chunk("IHDR", header),
    chunk("PLTE", colours),
    chunk("IDAT", deflateSync(rows, { level: 9, memLevel: 9 })),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}

function decode(bytes) {
  const parts = [];
  let header;
  for (let at = 8; at < bytes.length;) {
    const length = bytes.readUInt32BE(at);
    const kind = bytes.toString("latin1", at + 4, at + 8);
    const data = bytes.subarray(at + 8, at + 8 + length);
    if (kind === "IHDR") header = data;
    if (kind === "IDAT") parts.push(data);
    at += length + 12;
  }
  const [width, height] = [header.readUInt32BE(0), header.readUInt32BE(4)];
  const step = { 2: 3, 6: 4 }[header[9]];
  if (header[8] !== 8 || !step || header[12]) throw new Error("the screenshot is no 8-bit RGB without interlace");
  const raw = unfiltered(inflateSync(Buffer.concat(parts)), width * step, height, step);
  const pixels = new Uint32Array(width * height);
  for (let at = 0; at < pixels.length; at += 1)
    pixels[at] = (raw[at * step] << 16) | (raw[at * step + 1] << 8) | raw[at * step + 2];
  return { width, height, pixels };
}

function unfiltered(data, stride, height, step) {
  const rows = Buffer.alloc(stride * height);
  for (let y = 0; y < height; y += 1) {
    const filter = data[y * (stride + 1)];
    for (let x = 0; x < stride; x += 1) {
      const left = x >= step ? rows[y * stride + x - step] : 0;
      const up = y ? rows[(y - 1) * stride + x] : 0;
      const corner = y && x >= step ? rows[(y - 1) * stride + x - step] : 0;
      const guess = [0, left, up, (left + up) >> 1, paeth(left, up, corner)][filter];
      rows[y * stride + x] = (data[y * (stride + 1) + 1 + x] + guess) & 255;
    }
  }
  return rows;
}

function paeth(left, up, corner) {
  const guess = left + up - corner;
  const [a, b, c] = [Math.abs(guess - left), Math.abs(guess - up), Math.abs(guess - corner)];
  return a <= b && a <= c ? left : b <= c ? up : corner;
}

const channel = (colour, shift) => (colour >> shift) & 255;

// Median cut: the box with the widest channel is divided until there are enough; frequent colours stay exact.
function paletteOf(pixels) {
  const counts = new Map();
  for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
  const frequent = [...counts]
    .sort((a, b) => b[1] - a[1])
    .slice(0, 48)
    .map(([colour]) => colour);
  const boxes = [[...counts.keys()].filter((colour) => !frequent.includes(colour))].filter((box) => box.length);
  while (boxes.length && boxes.length + frequent.length < MOST_COLOURS) {
    const widest = boxes
      .map((box, at) => ({ at, ...spread(box) }))
      .reduce((most, one) => (one.width > most.width ? one : most));
    if (widest.width === 0) break;
    const box = boxes[widest.at].sort((a, b) => channel(a, widest.shift) - channel(b, widest.shift));
    boxes.splice(widest.at, 1, box.slice(0, box.length >> 1), box.slice(box.length >> 1));
  }
  const palette = [...frequent];
  const indexOf = new Map(frequent.map((colour, at) => [colour, at]));
  for (const box of boxes) {
    for (const colour of box) indexOf.set(colour, palette.length);
    const all = box.reduce((sum, colour) => sum + counts.get(colour), 0);
    const mean = (shift) =>
      Math.round(box.reduce((sum, colour) => sum + channel(colour, shift) * counts.get(colour), 0) / all);
    palette.push((mean(16) << 16) | (mean(8) << 8) | mean(0));
  }
  return { palette, indexOf };
}

function spread(box) {
  const widths = [16, 8, 0].map((shift) => {
    let [low, high] = [255, 0];
    for (const colour of box) {
      low = Math.min(low, channel(colour, shift));
      high = Math.max(high, channel(colour, shift));
    }
    return { shift, width: high - low };
  });
  return widths.reduce((most, one) => (one.width > most.width ? one : most));
}

function chunk(kind, data) {
  const body = Buffer.concat([Buffer.from(kind, "latin1"), data]);
  const out = Buffer.alloc(body.length + 8);
  out.writeUInt32BE(data.length, 0);
  body.copy(out, 4);
  out.writeUInt32BE(crc32(body), body.length + 4);
  return out;
}

const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  return value;
});

const crc32 = (bytes) =>
  (bytes.reduce((sum, byte) => (sum >>> 8) ^ TABLE[(sum ^ byte) & 255], 0xffffffff) ^ 0xffffffff) >>> 0;
