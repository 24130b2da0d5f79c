import { SluiceError } from "../../foundation/errors.ts";

/** Sound as numbers from -1 to 1, of one channel. */
export interface Recording {
  samples: Float32Array;
  /** Samples a second. */
  sampleRate: number;
}

interface Format {
  /** 1 = whole numbers, 3 = floats. */
  code: number;
  channels: number;
  sampleRate: number;
  bits: number;
}

const extensible = 0xfffe;

/**
 * Reads a WAV file: whole numbers of 8, 16, 24 or 32 bits, or floats of 32. Several channels become
 * one, their mean.
 *
 * @throws SluiceError `AUDIO_INVALID`, with what it is instead.
 */
export function readWav(bytes: Uint8Array): Recording {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < 12 || textAt(view, 0) !== "RIFF" || textAt(view, 8) !== "WAVE") {
    throw new SluiceError("AUDIO_INVALID", "it is not a WAV file");
  }
  let format: Format | undefined;
  for (let at = 12; at + 8 <= bytes.length; ) {
    const [name, size] = [textAt(view, at), view.getUint32(at + 4, true)];
    if (name === "fmt ") format = formatAt(view, at + 8);
    if (name === "data" && format !== undefined) {
      // A recording that was written as a stream lacks its size, or has 0.
      const end = size === 0 ? bytes.length : Math.min(at + 8 + size, bytes.length);
      if (end === at + 8) break;
      return { samples: samplesOf(view, at + 8, end, format), sampleRate: format.sampleRate };
    }
    // Chunks begin at even places.
    at += 8 + size + (size % 2);
  }
  throw new SluiceError("AUDIO_INVALID", "the WAV file holds no sound");
}

function textAt(view: DataView, at: number): string {
  return String.fromCharCode(...[0, 1, 2, 3].map((place) => view.getUint8(at + place)));
}

/** Sound has rates between these; a few bytes at a lower one would become gigabytes at another. */
const [leastSampleRate, mostSampleRate] = [1000, 1_000_000];

function formatAt(view: DataView, at: number): Format {
  if (at + 16 > view.byteLength) throw new SluiceError("AUDIO_INVALID", "the WAV file is cut off");
  const given = view.getUint16(at, true);
  const hasMore = given === extensible && at + 26 <= view.byteLength;
  const format = {
    code: hasMore ? view.getUint16(at + 24, true) : given,
    channels: view.getUint16(at + 2, true),
    sampleRate: view.getUint32(at + 4, true),
    bits: view.getUint16(at + 14, true),
  };
  const { code, channels, sampleRate, bits } = format;
  const isKnown = (code === 1 && [8, 16, 24, 32].includes(bits)) || (code === 3 && bits === 32);
  const isRate = sampleRate >= leastSampleRate && sampleRate <= mostSampleRate;
  if (isKnown && channels > 0 && isRate) return format;
  const detail = `WAV of format ${code} with ${bits} bits, ${channels} channels, ${sampleRate} Hz`;
  throw new SluiceError("AUDIO_INVALID", detail, { hint: "convert it to 16-bit PCM" });
}

function samplesOf(view: DataView, start: number, end: number, format: Format): Float32Array {
  const { channels, bits } = format;
  const width = bits / 8;
  const read = reader(view, format);
  const samples = new Float32Array(Math.floor((end - start) / (width * channels)));
  for (let at = 0; at < samples.length; at++) {
    let sum = 0;
    for (let channel = 0; channel < channels; channel++) {
      sum += read(start + (at * channels + channel) * width);
    }
    samples[at] = sum / channels;
  }
  return samples;
}

function reader(view: DataView, { code, bits }: Format): (at: number) => number {
  if (code === 3) return (at) => view.getFloat32(at, true);
  if (bits === 8) return (at) => (view.getUint8(at) - 128) / 128;
  if (bits === 16) return (at) => view.getInt16(at, true) / 0x8000;
  if (bits === 32) return (at) => view.getInt32(at, true) / 0x8000_0000;
  return (at) => ((view.getInt8(at + 2) << 16) | view.getUint16(at, true)) / 0x80_0000;
}

/** Samples on each side that a new sample is made from. */
const reach = 16;

/**
 * The same sound at another sample rate: sums of the samples around, weighted by a sinc under a
 * Hann window, which leaves out what the new rate cannot hold.
 *
 * @example
 * resampled({ samples, sampleRate: 44_100 }, 16_000).length; // samples.length × 160 / 441
 */
export function resampled({ samples, sampleRate }: Recording, wantedRate: number): Float32Array {
  if (sampleRate === wantedRate) return samples;
  const ratio = sampleRate / wantedRate;
  const cutoff = Math.min(1, 1 / ratio);
  const width = reach / cutoff;
  const result = new Float32Array(Math.floor(samples.length / ratio));
  for (let at = 0; at < result.length; at++) {
    const center = at * ratio;
    const first = Math.max(0, Math.ceil(center - width));
    const last = Math.min(samples.length - 1, Math.floor(center + width));
    let [sum, weights] = [0, 0];
    for (let place = first; place <= last; place++) {
      const weight = windowedSinc(place - center, cutoff, width);
      sum += weight * samples[place]!;
      weights += weight;
    }
    result[at] = weights === 0 ? 0 : sum / weights;
  }
  return result;
}

function windowedSinc(distance: number, cutoff: number, width: number): number {
  const phase = Math.PI * distance * cutoff;
  const sinc = phase === 0 ? 1 : Math.sin(phase) / phase;
  return sinc * (0.5 + 0.5 * Math.cos((Math.PI * distance) / width));
}
