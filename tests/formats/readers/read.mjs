// Reads checkpoints with zarrita.js, as read.py does with others: read.mjs MODULES read ROOT | lost PLACE | attributes PLACE. Prints JSON.
import fs from "node:fs";
import path from "node:path";

const [modules, action, where] = process.argv.slice(2);
const zarr = await import(path.join(modules, "zarrita/dist/src/index.js"));
const { default: FileSystemStore } = await import(path.join(modules, "@zarrita/storage/dist/src/fs.js"));

async function attempt(place, name) {
  try {
    const array = await zarr.open(zarr.root(new FileSystemStore(path.resolve(place))).resolve(name), { kind: "array" });
    const found = await zarr.get(array);
    if (typeof found === "number") return { shape: [], bytes: Buffer.from(new Float64Array([found]).buffer).toString("hex") };
    const { data, shape, stride } = found;
    // Booleans come in an array of zarrita's own.
    const whole = data.get ? new Uint8Array(data.length) : new data.constructor(data.length);
    for (let at = 0; at < data.length; at++) {
      // Column-major arrays come with strides.
      let rest = at, from = 0;
      for (let axis = shape.length - 1; axis >= 0; axis--) {
        from += (rest % shape[axis]) * stride[axis];
        rest = Math.floor(rest / shape[axis]);
      }
      whole[at] = data.get ? Number(data.get(from)) : data[from];
    }
    return { shape, bytes: Buffer.from(whole.buffer).toString("hex") };
  } catch (error) {
    return { error: `${error.constructor.name}: ${error.message}` };
  }
}

function arrays(place, below = "") {
  return fs.readdirSync(path.join(place, below)).sort().flatMap((name) => {
    const node = below ? `${below}/${name}` : name;
    if (!fs.statSync(path.join(place, node)).isDirectory()) return [];
    const { node_type } = JSON.parse(fs.readFileSync(path.join(place, node, "zarr.json")));
    return node_type === "array" ? [node] : arrays(place, node);
  });
}

if (action === "read") {
  const found = {};
  for (const kind of fs.readdirSync(where).sort()) {
    const place = path.join(where, kind);
    found[kind] = {};
    for (const name of arrays(place)) found[kind][name] = await attempt(place, name);
  }
  console.log(JSON.stringify(found));
} else if (action === "attributes") {
  const { attrs } = await zarr.open(zarr.root(new FileSystemStore(where)), { kind: "group" });
  console.log(BigInt(attrs.published_ns).toString());
} else {
  const one = await attempt(where, "u");
  console.log(JSON.stringify([one, one]));
}
