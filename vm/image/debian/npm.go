package debian

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/vm/image/fetch"
	"osaurus-sandbox/vm/image/pack"
	"osaurus-sandbox/vm/image/untar"
)

// npmArchive is npm, for Node 18.17 or newer. Debian's package of npm depends on 400 others.
var npmArchive = fetch.File{
	URL:    "https://registry.npmjs.org/npm/-/npm-10.9.4.tgz",
	Size:   2714849,
	SHA256: pack.MustParseDigest("4bfba8a0c823024d1926ec9d97a37a00eb60fd2adf44b3d34a686fc32e8f51e4"),
}

// getNPM returns the path of npm's archive in the folder temp, uncompressed, or nothing if npm's
// host cannot be reached.
func getNPM(ctx context.Context, client *fetch.Client, temp string, report progress.Func) (string, error) {
	packed, err := client.Get(ctx, npmArchive, report)
	if fetch.Unreachable(err) {
		report.Note("the pack has no npm, since its host cannot be reached")
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer client.Forget(npmArchive)
	in, err := os.Open(packed)
	if err != nil {
		return "", err
	}
	defer in.Close()
	path := filepath.Join(temp, "npm.tar")
	return path, pack.WriteFile(path, func(out io.Writer) error { return untar.Filter(ctx, out, in, packed) })
}

// npmOptions are mmdebstrap's options to install npm.
func npmOptions(archive string) []string {
	return []string{
		`--customize-hook=mkdir -p "$1/usr/lib/node_modules"`,
		`--customize-hook=tar-in "` + archive + `" /usr/lib/node_modules`,
		`--customize-hook=cd "$1/usr" && mv lib/node_modules/package lib/node_modules/npm && chmod -R go+rX lib/node_modules && chown -R 0:0 lib/node_modules/npm` +
			` && ln -s ../lib/node_modules/npm/bin/npm-cli.js bin/npm && ln -s ../lib/node_modules/npm/bin/npx-cli.js bin/npx`,
	}
}
