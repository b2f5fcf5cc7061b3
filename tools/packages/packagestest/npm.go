package packagestest

import (
	"crypto/sha1"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"testing"
)

// NPM is a small registry of Node packages. It stands in for npm's own.
type NPM struct {
	Server
	url string
}

// TarballPath is where a package's file is below a registry of npm's.
func (p Package) TarballPath() string { return "/" + p.Name + "/-/" + p.node() + ".tgz" }

// node is the version: npm's have three numbers.
func (p Package) node() string { return p.version() + ".0" }

// NewNPM makes a registry, which serves at once. What a package depends on is the
// name of another. The last of a name is the latest.
func NewNPM(t testing.TB, to string, packages ...Package) *NPM {
	t.Helper()
	r := &NPM{}
	r.url = r.Serve(t, to)
	all := map[string]map[string]any{}
	for _, p := range packages {
		about := map[string]any{"name": p.Name, "version": p.node(), "main": "index.js"}
		if p.Depends != "" {
			about["dependencies"] = map[string]string{p.Depends: "^1"}
		}
		if p.PostInstall != "" {
			about["scripts"] = map[string]string{"postinstall": p.PostInstall}
		}
		files := map[string]string{"package/package.json": encode(t, about)}
		for name, text := range p.Files {
			files["package/"+name] = text
		}
		tarball := plainTar(t, files)
		short, long := sha1.Sum(tarball), sha512.Sum512(tarball)
		version := maps.Clone(about)
		version["hasInstallScript"] = p.PostInstall != ""
		version["dist"] = map[string]string{
			"tarball": r.url + p.TarballPath(), "shasum": hex.EncodeToString(short[:]), "integrity": "sha512-" + base64.StdEncoding.EncodeToString(long[:]),
		}
		r.Put(p.TarballPath(), tarball)
		if all[p.Name] == nil {
			all[p.Name] = map[string]any{}
		}
		all[p.Name][p.node()] = version
		r.Put("/"+p.Name, []byte(encode(t, map[string]any{
			"name": p.Name, "dist-tags": map[string]string{"latest": p.node()}, "versions": all[p.Name],
		})))
	}
	return r
}

// Config is what makes npm ask the registry and no other.
func (r *NPM) Config() string { return "registry=" + r.url + "/\n" }

func encode(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
