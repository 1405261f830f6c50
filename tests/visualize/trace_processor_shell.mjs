#!/usr/bin/env node
// Perfetto's trace processor, built for WebAssembly, behind the HTTP interface of
// trace_processor_shell, as far as the `perfetto` package for Python asks for it.
//
//     PERFETTO_WASM=FOLDER trace_processor_shell.mjs -D --http-port PORT
//
// FOLDER has trace_processor.wasm and engine_bundle.node.js of a release of Perfetto.
import {createServer} from "node:http";
import {readFileSync} from "node:fs";
import {join} from "node:path";
import {pathToFileURL} from "node:url";
import vm from "node:vm";

const folder = process.env.PERFETTO_WASM;
const port = Number(process.argv[process.argv.indexOf("--http-port") + 1]);
const [PARSE, EOF, QUERY, STATUS] = [1, 2, 3, 10];  // TraceProcessorRpc.TraceProcessorMethod
const QUERY_ARGS = 103, QUERY_RESULT = 203, PARSE_RESULT = 201, STATUS_RESULT = 210;

// -- protobuf, as much as it takes to put a message into another one --------------------------

function varint(value) {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  return Buffer.from([...bytes, value]);
}

function field(number, payload) {
  return Buffer.concat([varint(number * 8 + 2), varint(payload.length), payload]);
}

function* fields(bytes) {
  let at = 0;
  const number = () => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = bytes[at++];
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const key = number();
    if (key % 8 === 2) {
      const size = number();
      yield [Math.floor(key / 8), bytes.subarray(at, at + size)];
      at += size;
    } else if (key % 8 === 0) {
      yield [Math.floor(key / 8), number()];
    } else {
      at += key % 8 === 1 ? 8 : 4;  // fixed size
    }
  }
}

// -- the engine expects to be a worker of a browser -------------------------------------------

const replacements = [
  ["this.useMemory64 = hasMemory64Support();", "this.useMemory64 = false;"],
  ["locateFile: (s) => s,", "locateFile: (s) => s, wasmBinary: globalThis.wasmBytes,"],
  ["const wasmBridge = new wasm_bridge_1.WasmBridge();",
   "const wasmBridge = globalThis.bridge = new wasm_bridge_1.WasmBridge();"],
];

function start() {
  const place = (name, value) => Object.defineProperty(globalThis, name, {value});
  place("self", globalThis);
  place("WorkerGlobalScope", function WorkerGlobalScope() {});
  place("location", {href: `${pathToFileURL(folder).href}/`});
  place("wasmBytes", new Uint8Array(readFileSync(join(folder, "trace_processor.wasm"))));
  let source = readFileSync(join(folder, "engine_bundle.node.js"), "utf8");
  for (const [from, to] of replacements) {
    if (!source.includes(from)) throw new Error(`engine_bundle.node.js has changed: no ${from}`);
    source = source.replace(from, to);
  }
  vm.runInThisContext(source);
  const {port1, port2} = new MessageChannel();
  globalThis.bridge.initialize(port1);
  return port2;
}

const engine = start();
const waiting = [];  // requests in order: {wanted field, parts, resolve}
let sequence = 0, pending = Buffer.alloc(0);

engine.onmessage = ({data}) => {
  if (!(data instanceof Uint8Array)) return;
  pending = Buffer.concat([pending, data]);
  for (const [, message] of fields(pending)) answer(message);
  pending = Buffer.alloc(0);
};

function answer(message) {
  const {wanted, parts, resolve} = waiting[0];
  let last = true;
  for (const [number, payload] of fields(message)) {
    if (number === 5) throw new Error(`fatal: ${payload}`);
    if (number !== wanted) continue;
    parts.push(Buffer.from(payload));
    // A query is answered in batches; the last one says so (QueryResult.batch.is_last_batch).
    if (wanted === QUERY_RESULT) last = finished(payload);
  }
  if (!last) return;
  waiting.shift();
  resolve(Buffer.concat(parts));
}

function finished(result) {
  for (const [number, payload] of fields(result)) {
    if (number !== 3) continue;
    for (const [inner, value] of fields(payload)) if (inner === 6 && value) return true;
  }
  return false;
}

function call(method, args, wanted) {
  const head = [varint(8), varint(++sequence), varint(16), varint(method)];
  const stream = field(1, Buffer.concat([...head, ...args]));
  return new Promise((resolve) => {
    waiting.push({wanted, parts: [], resolve});
    engine.postMessage(new Uint8Array(stream));
  });
}

const calls = {
  "/status": () => call(STATUS, [], STATUS_RESULT),
  "/parse": (body) => call(PARSE, [field(101, body)], PARSE_RESULT),
  "/notify_eof": () => call(EOF, [], -1),
  "/query": (body) => call(QUERY, [field(QUERY_ARGS, body)], QUERY_RESULT),
};

createServer(async (request, response) => {
  const body = [];
  for await (const chunk of request) body.push(chunk);
  const handle = calls[request.url];
  if (!handle) return response.writeHead(404).end();
  const bytes = await handle(Buffer.concat(body));
  response.writeHead(200, {"content-length": bytes.length}).end(bytes);
}).listen(port, "localhost");
