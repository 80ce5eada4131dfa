"""Makes pictures of screens small: 256 colours are enough for a page, and take a third of the room."""

from __future__ import annotations

import base64
import struct
import zlib

from playwright.async_api import Browser

MOST = 256
# The most frequent colours are kept; what is left, mostly edges of letters, takes the nearest of them.
READ = """
async ([source, most]) => {
  const blob = await (await fetch(source)).blob();
  const image = await createImageBitmap(blob);
  const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d");
  canvas.drawImage(image, 0, 0);
  const pixels = new Uint32Array(canvas.getImageData(0, 0, image.width, image.height).data.buffer);
  const counts = new Map();
  for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
  const colours = [...counts].sort((a, b) => b[1] - a[1]).slice(0, most).map(([colour]) => colour);
  const places = new Map(colours.map((colour, at) => [colour, at]));
  const parts = (colour) => [colour & 255, (colour >> 8) & 255, (colour >> 16) & 255];
  const apart = (one, other) => parts(one).reduce((sum, part, at) => sum + (part - parts(other)[at]) ** 2, 0);
  const nearest = (colour) => {
    const distances = colours.map((each) => apart(colour, each));
    return distances.indexOf(Math.min(...distances));
  };
  const indexed = Uint8Array.from(pixels, (pixel) => {
    if (!places.has(pixel)) places.set(pixel, nearest(pixel));
    return places.get(pixel);
  });
  let text = "";
  for (let at = 0; at < indexed.length; at += 8192) text += String.fromCharCode(...indexed.subarray(at, at + 8192));
  return { width: image.width, height: image.height, colours: colours.map(parts), pixels: btoa(text) };
}
"""


async def reduced(browser: Browser, picture: bytes) -> bytes:
    """The same PNG with a palette."""
    page = await browser.new_page()
    source = f"data:image/png;base64,{base64.b64encode(picture).decode()}"
    read = await page.evaluate(READ, [source, MOST])
    await page.close()
    width, height = read["width"], read["height"]
    pixels = base64.b64decode(read["pixels"])
    rows = b"".join(b"\0" + pixels[at : at + width] for at in range(0, width * height, width))
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    palette = bytes(part for colour in read["colours"] for part in colour)
    parts = ((b"IHDR", header), (b"PLTE", palette), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_part(name, body) for name, body in parts)


def _part(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
