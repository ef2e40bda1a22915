// Print the name, version and licence of each package that is in a build, from esbuild's metafile.
import { existsSync, readFileSync } from "node:fs";

const built = JSON.parse(readFileSync(process.argv[2], "utf8"));
const parts = Object.keys(built.inputs).map((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]);
const names = [...new Set(parts.filter(Boolean))].sort();
console.log("codemirror.js is built of these packages by scripts/vendor-web.");
for (const name of names) {
  const folder = `node_modules/${name}`;
  const told = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
  const file = ["LICENSE", "LICENSE.md", "LICENSE.txt"].map((each) => `${folder}/${each}`).find(existsSync);
  if (!file) throw new Error(`${name} has no licence file`);
  console.log(`\n${"-".repeat(78)}\n${name} ${told.version}: ${told.license}\n\n${readFileSync(file, "utf8").trim()}`);
}
