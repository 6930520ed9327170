/** Descriptors of the protocol as the page has them: plain arrays, from which the page makes what the runtime of Protobuf needs. */

import { createFileRegistry, type DescFile } from "@bufbuild/protobuf";
import type { FileDescriptorProto } from "@bufbuild/protobuf/wkt";

/** A field. A negative type says that it is repeated. A name of a type is relative to the package, unless it begins with a dot. */
export type Field = readonly [name: string, number: number, type: number, typeName?: string, oneof?: number];

/** A message. A map's entry is one, too. */
export type Message = readonly [
  name: string,
  fields: readonly Field[],
  nested?: readonly Message[],
  oneofs?: readonly string[],
  isMapEntry?: boolean,
];

/** The names of all values begin with the prefix. */
export type Enum = readonly [name: string, prefix: string, values: Readonly<Record<string, number>>];

export type Method = readonly [name: string, input: string, output: string, isServer?: boolean, isClient?: boolean];

export type Service = readonly [name: string, methods: readonly Method[]];

/** The place in a `oneof` of a field that is `optional`, which is in none. */
export const OPTIONAL = -1;

const LABEL_OPTIONAL = 1;
const LABEL_REPEATED = 3;

/** Makes the descriptor of a file of proto3. */
export function plainFile(
  name: string,
  inPackage: string,
  messages: readonly Message[],
  enums: readonly Enum[],
  services: readonly Service[],
  imports: readonly DescFile[],
): DescFile {
  const absolute = (type: string) => (type === "" || type.startsWith(".") ? type : `.${inPackage}.${type}`);

  const field = ([name, number, type, typeName = "", oneof]: Field) => ({
    name,
    number,
    type: Math.abs(type),
    label: type < 0 ? LABEL_REPEATED : LABEL_OPTIONAL,
    typeName: absolute(typeName),
    // Whether a field has this property says whether it is in a `oneof`.
    ...(oneof === undefined ? {} : oneof === OPTIONAL ? { proto3Optional: true } : { oneofIndex: oneof }),
  });

  const message = ([name, fields, nested = [], oneofs = [], mapEntry = false]: Message): object => ({
    name,
    field: fields.map(field),
    nestedType: nested.map(message),
    oneofDecl: oneofs.map((name) => ({ name })),
    enumType: [],
    extension: [],
    options: { mapEntry },
  });

  const file = {
    $typeName: "google.protobuf.FileDescriptorProto",
    name,
    package: inPackage,
    syntax: "proto3",
    dependency: imports.map(({ proto }) => proto.name),
    messageType: messages.map(message),
    enumType: enums.map(([name, prefix, values]) => ({
      name,
      value: Object.entries(values).map(([name, number]) => ({ name: prefix + name, number })),
    })),
    service: services.map(([name, methods]) => ({
      name,
      method: methods.map(([name, input, output, serverStreaming = false, clientStreaming = false]) => ({
        name,
        inputType: absolute(input),
        outputType: absolute(output),
        serverStreaming,
        clientStreaming,
      })),
    })),
    extension: [],
  };
  const known = (name: string) => imports.find(({ proto }) => proto.name === name);
  const made = createFileRegistry(file as unknown as FileDescriptorProto, known).getFile(name);
  if (!made) throw new Error(`${name} is not in its own registry`);
  return made;
}
