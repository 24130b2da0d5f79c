/** How the samples of a WAV file are written: 1 = whole numbers, 3 = floats. */
export interface WavFormat {
  code: number;
  bits: number;
}

/**
 * A WAV file of some channels of samples from -1 to 1.
 *
 * @param other a chunk that stands before the sound, by name and size.
 */
export function wavBytes(
  channels: readonly (readonly number[])[],
  sampleRate: number,
  { code, bits }: WavFormat,
  other?: readonly [name: string, size: number],
): Buffer {
  const width = bits / 8;
  const rows = channels[0]!.length;
  const sound = Buffer.alloc(rows * channels.length * width);
  let at = 0;
  for (let row = 0; row < rows; row++) {
    for (const channel of channels) {
      if (code === 3) sound.writeFloatLE(channel[row]!, at);
      else if (bits === 8) sound.writeUInt8(Math.round(channel[row]! * 127) + 128, at);
      else sound.writeIntLE(Math.round(channel[row]! * (2 ** (bits - 1) - 1)), at, width);
      at += width;
    }
  }
  const format = Buffer.alloc(16);
  format.writeUInt16LE(code, 0);
  format.writeUInt16LE(channels.length, 2);
  format.writeUInt32LE(sampleRate, 4);
  format.writeUInt32LE(sampleRate * width * channels.length, 8);
  format.writeUInt16LE(width * channels.length, 12);
  format.writeUInt16LE(bits, 14);
  const chunks = [
    chunk("fmt ", format),
    ...(other ? [chunk(other[0], Buffer.alloc(other[1]))] : []),
  ];
  const body = Buffer.concat([Buffer.from("WAVE"), ...chunks, chunk("data", sound)]);
  return Buffer.concat([chunk("RIFF", body)]);
}

function chunk(name: string, body: Buffer): Buffer {
  const head = Buffer.alloc(8);
  head.write(name, 0, "latin1");
  head.writeUInt32LE(body.length, 4);
  return Buffer.concat([head, body, Buffer.alloc(body.length % 2)]);
}
