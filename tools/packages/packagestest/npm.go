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

// NPM is a small registry of Node packages.
type NPM struct {
	Server
	url string
}

// TarballPath returns the path of a package's tarball in the registry.
func (p Package) TarballPath() string { return "/" + p.Name + "/-/" + p.node() + ".tgz" }

// node returns the version with the three numbers that npm requires.
func (p Package) node() string { return p.version() + ".0" }

// NewNPM makes and serves a registry. The last package of a name is the latest version.
// Dependencies are names of other packages.
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
		tarball := archive(t, true, false, files)
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

// Config returns an .npmrc that uses only this registry.
func (r *NPM) Config() string { return "registry=" + r.url + "/\n" }

func encode(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
