import { type FileMetaData, parquetMetadata } from "hyparquet";
import { ByteWriter } from "hyparquet-writer";
import { writeMetadata } from "hyparquet-writer/src/metadata.js";

/** The same file with another footer: whole by all checks of its form, and lying. */
export function withFooter(content: Uint8Array, change: (footer: FileMetaData) => void): Buffer {
  const footer = parquetMetadata(new Uint8Array(content));
  const dataEnd = content.length - footer.metadata_length - 8;
  change(footer);
  const writer = new ByteWriter();
  writeMetadata(writer, footer);
  writer.appendUint32(0x31524150);
  return Buffer.concat([content.subarray(0, dataEnd), writer.getBytes()]);
}
