import { describe, expect, it } from "vitest";
import { readWav, resampled } from "../../../src/engines/transformers/wav.ts";
import { type WavFormat, wavBytes } from "./wav-bytes.ts";

const tone = (hertz: number, rate: number, samples: number) =>
  Array.from({ length: samples }, (_, at) => 0.5 * Math.sin((2 * Math.PI * hertz * at) / rate));

describe("readWav", () => {
  it.each<[string, WavFormat, number]>([
    ["8-bit", { code: 1, bits: 8 }, 1 / 64],
    ["16-bit", { code: 1, bits: 16 }, 1e-4],
    ["24-bit", { code: 1, bits: 24 }, 1e-6],
    ["32-bit", { code: 1, bits: 32 }, 1e-7],
    ["float", { code: 3, bits: 32 }, 1e-7],
  ])("reads %s sound", (_, format, tolerance) => {
    const wanted = tone(440, 8000, 100);
    const { samples, sampleRate } = readWav(wavBytes([wanted], 8000, format));
    expect(sampleRate).toBe(8000);
    expect(samples).toHaveLength(100);
    for (const [at, value] of samples.entries()) {
      expect(Math.abs(value - wanted[at]!)).toBeLessThan(tolerance);
    }
  });

  it("makes one channel of several, and passes over other chunks", () => {
    const bytes = wavBytes(
      [
        [0.5, 0.5],
        [-0.5, 0.25],
      ],
      16_000,
      { code: 3, bits: 32 },
      ["LIST", 3],
    );
    expect([...readWav(bytes).samples]).toEqual([0, 0.375]);
  });

  it("reads a recording whose header was never finished, and refuses one without sound", () => {
    const bytes = Buffer.from(wavBytes([tone(440, 8000, 100)], 8000, { code: 1, bits: 16 }));
    const at = bytes.indexOf("data");
    bytes.writeUInt32LE(0, at + 4);
    expect(readWav(bytes).samples).toHaveLength(100);
    expect(() => readWav(bytes.subarray(0, at + 8))).toThrow("holds no sound");
  });

  it("reads a recording that was cut off as far as it goes", () => {
    const bytes = wavBytes([tone(440, 8000, 100)], 8000, { code: 1, bits: 16 });
    expect(readWav(bytes.subarray(0, bytes.length - 50)).samples).toHaveLength(75);
  });

  it.each([
    ["no WAV", new TextEncoder().encode("ID3 and so on, an MP3"), /not a WAV file/],
    ["nothing", new Uint8Array(), /not a WAV file/],
    ["compressed sound", wavBytes([[0]], 8000, { code: 85, bits: 16 }), /format 85/],
    ["floats of 64 bits", wavBytes([[]], 8000, { code: 3, bits: 64 }), /format 3 with 64 bits/],
    ["floats of 16 bits", wavBytes([[]], 8000, { code: 3, bits: 16 }), /format 3 with 16/],
    ["a rate of no sound", wavBytes([[0]], 1, { code: 1, bits: 16 }), /1 channels, 1 Hz/],
    ["no sound", wavBytes([[0]], 8000, { code: 1, bits: 16 }).subarray(0, 36), /holds no sound/],
  ])("refuses %s by name", (_, bytes, message) => {
    expect(() => readWav(bytes)).toThrow(message);
  });
});

describe("resampled", () => {
  it("keeps a tone that the new rate can hold", () => {
    const samples = Float32Array.from(tone(440, 44_100, 44_100));
    const given = resampled({ samples, sampleRate: 44_100 }, 16_000);
    expect(given).toHaveLength(16_000);
    const wanted = tone(440, 16_000, 16_000);
    for (let at = 100; at < 15_900; at++) {
      expect(Math.abs(given[at]! - wanted[at]!)).toBeLessThan(0.01);
    }
  });

  it("leaves out a tone that it cannot hold", () => {
    const samples = Float32Array.from(tone(12_000, 44_100, 4410));
    const given = resampled({ samples, sampleRate: 44_100 }, 16_000).subarray(100, 1500);
    expect(Math.max(...given.map(Math.abs))).toBeLessThan(0.05);
  });

  it("leaves the same rate as it is", () => {
    const samples = Float32Array.of(1, 2);
    expect(resampled({ samples, sampleRate: 16_000 }, 16_000)).toBe(samples);
  });
});
