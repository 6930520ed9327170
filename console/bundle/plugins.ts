/** What keeps the page small: plugins of Vite that leave out what it never uses of its libraries. */

import { fromBinary } from "@bufbuild/protobuf";
import { base64Decode } from "@bufbuild/protobuf/wire";
import {
  type DescriptorProto,
  type FieldDescriptorProto,
  FieldDescriptorProto_Label,
  FileDescriptorProtoSchema,
  type ServiceDescriptorProto,
} from "@bufbuild/protobuf/wkt";
import { fileURLToPath } from "node:url";
import { type Enum, type Field, type Message, OPTIONAL, type Service } from "./descriptors.js";

const DESCRIPTORS = fileURLToPath(new URL("./descriptors.ts", import.meta.url));

/** Leaves out the JSON forms of messages: calls are binary, so the page never reads or writes them. */
export const withoutJson = {
  name: "without-json",
  enforce: "pre" as const,
  transform(code: string, id: string) {
    if (!/@bufbuild\/protobuf\/dist\/esm\/(from|to)-json\.js$/.test(id)) return undefined;
    const functions = [...code.matchAll(/^export (function \w+)/gm)];
    const refused = `() { throw new Error("the page has no JSON forms of messages"); }`;
    return { code: functions.map(([, head]) => `export ${head}${refused}`).join("\n"), map: null };
  },
};

/** Leaves out what makes HTML of Markdown: the page uses the lexer only, and makes elements itself. */
export const withoutRenderer = {
  name: "without-renderer",
  enforce: "pre" as const,
  transform(code: string, id: string) {
    if (!/marked\/lib\/marked\.esm\.js$/.test(id)) return undefined;
    const lexer = /\b(\w+) as Lexer\b/.exec(code)?.[1];
    // The one instance that all functions share, and its functions. Everything that they use goes with them.
    const shared = code.search(/var \w+=new \w+;function \w+\(\w+,\w+\)\{return \w+\.parse\(/);
    if (!lexer || shared < 0) throw new Error("marked is another version than bundle/plugins.ts knows");
    return { code: `${code.slice(0, shared)}export{${lexer} as Lexer};`, map: null };
  },
};

/**
 * Writes the descriptors of the protocol as plain arrays. In generated code, they are messages of Protobuf in base64, which cannot
 * be compressed well, and need all the descriptors of descriptors to be read. Options are left out: the page asks for none.
 */
export const plainDescriptors = {
  name: "plain-descriptors",
  enforce: "pre" as const,
  transform(code: string, id: string) {
    // Nothing needs the options themselves once no file imports them.
    if (!/\/(?:teamwire\/v1\/(?!options)\w+|timestamp|duration|any|status)_pb\.[jt]s$/.test(id)) return undefined;
    const call = /fileDesc\("([^"]*)"(?:, \[([^\]]*)\])?\)/.exec(code);
    if (!call) throw new Error(`${id} has no descriptor where bundle/plugins.ts looks for it`);
    const [whole, base64 = "", imports = ""] = call;
    const used = imports.split(", ").filter((name) => name !== "" && !/_(options|descriptor)$/.test(name));
    const plain = `plainFile(${literals(base64).join(", ")}, [${used.join(", ")}])`;
    return {
      code: `import { plainFile } from ${JSON.stringify(DESCRIPTORS)};\n${code.replace(whole, () => plain)}`,
      map: null,
    };
  },
};

function literals(base64: string): string[] {
  const file = fromBinary(FileDescriptorProtoSchema, base64Decode(base64));
  // Only the options have extensions, and they are left out.
  if (file.syntax !== "proto3") throw new Error(`${file.name} is not proto3`);
  const relative = (type: string) => {
    const prefix = `.${file.package}.`;
    return type.startsWith(prefix) ? type.slice(prefix.length) : type;
  };

  const field = (proto: FieldDescriptorProto): Field => {
    const { name, number, label, type, typeName, options } = proto;
    if (options?.packed || options?.jstype || options?.features || label === FieldDescriptorProto_Label.REQUIRED) {
      throw new Error(`bundle/plugins.ts does not know what ${file.name} says about the field ${name}`);
    }
    const isInOneof = Object.hasOwn(proto, "oneofIndex");
    const oneof = proto.proto3Optional ? OPTIONAL : isInOneof ? proto.oneofIndex : undefined;
    const signed = label === FieldDescriptorProto_Label.REPEATED ? -type : type;
    if (oneof !== undefined) return [name, number, signed, relative(typeName), oneof];
    return typeName ? [name, number, signed, relative(typeName)] : [name, number, signed];
  };

  const message = ({ name, field: fields, nestedType, enumType, oneofDecl, options }: DescriptorProto): Message => {
    if (enumType.length > 0)
      throw new Error(`bundle/plugins.ts does not know the enums within ${name} in ${file.name}`);
    // Behind the declared ones, there is one for each field that is `optional`.
    const optional = fields.filter(({ proto3Optional }) => proto3Optional).length;
    const oneofs = oneofDecl.slice(0, oneofDecl.length - optional).map((oneof) => oneof.name);
    const all = [name, fields.map(field), nestedType.map(message), oneofs, options?.mapEntry ?? false] as const;
    return withoutEnd(all) as unknown as Message;
  };

  const service = ({ name, method }: ServiceDescriptorProto): Service => [
    name,
    method.map(({ name, inputType, outputType, serverStreaming, clientStreaming }) => {
      const all = [name, relative(inputType), relative(outputType), serverStreaming, clientStreaming] as const;
      return withoutEnd(all) as unknown as Service[1][number];
    }),
  ];

  const enums = file.enumType.map(({ name, value }): Enum => {
    const first = value[0]?.name ?? "";
    let length = first.length;
    while (!value.every((other) => other.name.startsWith(first.slice(0, length)))) length--;
    const prefix = first.slice(0, length);
    return [name, prefix, Object.fromEntries(value.map(({ name, number }) => [name.slice(length), number]))];
  });
  const parts = [file.name, file.package, file.messageType.map(message), enums, file.service.map(service)];
  return parts.map((part) => JSON.stringify(part));
}

/** Returns an array without what is empty or false at its end. */
function withoutEnd(all: readonly unknown[]): unknown[] {
  const isEmpty = (part: unknown) => part === false || (Array.isArray(part) && part.length === 0);
  let length = all.length;
  while (length > 2 && isEmpty(all[length - 1])) length--;
  return all.slice(0, length);
}
